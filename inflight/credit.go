package inflight

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limit"
)

// A credit is the units that the gate has lent: while nobody waits, requests
// are admitted from it, and leave into it, by one compare-and-swap each. It is
// one word, so that what is counted in it never disagrees:
//
//	shut | crowded | full | succeeded (18 bits) | admitted (19 bits) | free (24 bits)
//
// Whoever wants more than that shuts it, under the mutex, gives back to the
// gate what is left, asks the gate, and has it lend anew before unlocking.
//
// The highest bits of the two counts say that they are to be collected soon:
// then, too, the way is through the gate.
type credit struct {
	word atomic.Uint64

	total  atomic.Int64  // units in flight and free, when it was lent
	mask   atomic.Uint64 // admissions of which the number has none of these bits are timed
	lately atomic.Int64  // the instant of some admission not long ago

	overLimit, queueFull atomic.Uint64 // refused without asking the gate
}

const (
	freeBits, admittedBits, succeededBits = 24, 19, 18

	oneAdmitted  = 1 << freeBits
	oneSucceeded = 1 << (freeBits + admittedBits)

	freeMask = oneAdmitted - 1
	collect  = 1<<(freeBits+admittedBits-1) | 1<<(freeBits+admittedBits+succeededBits-1)

	full    = 1 << 61 // nobody more may wait
	crowded = 1 << 62 // somebody waits, or would have to
	shut    = 1 << 63 // ask the gate

	rarest   = 64      // every how many admissions one is timed, at most
	maxPhase = 1 << 16 // of the counts of admissions, when they begin again
)

// mix makes a count look random, so that of callers that take turns all are
// timed (Knuth's multiplicative hash).
func mix(count int) uint64 { return uint64(uint32(count)*2654435769) >> 20 }

func free(w uint64) int     { return int(w & freeMask) }
func admitted(w uint64) int { return int(w>>freeBits) & (1<<admittedBits - 1) }
func succeeded(w uint64) uint64 {
	return w >> (freeBits + admittedBits) & (1<<succeededBits - 1)
}

// take takes n units, if they are free and nobody waits. If not, it returns
// the word that said so.
func (c *credit) take(n int) (w uint64, ok bool) {
	for {
		w = c.word.Load()
		if w&(shut|collect) != 0 || uint(n) > uint(free(w)) {
			return w, false
		}
		if c.word.CompareAndSwap(w, w+oneAdmitted-uint64(n)) {
			return w, true
		}
	}
}

// put puts n units of work that went well back.
func (c *credit) put(n int) bool {
	for {
		w := c.word.Load()
		if w&(shut|collect) != 0 || n > min(int(c.total.Load()), freeMask)-free(w) {
			return false
		}
		if c.word.CompareAndSwap(w, w+oneSucceeded+uint64(n)) {
			return true
		}
	}
}

// lock takes the mutex, and gives the credit back to the gate.
func (l *Limiter) lock() {
	l.mu.Lock()
	w := l.credit.word.Swap(shut)
	if w&shut == 0 {
		n := admitted(w) - admitted(l.lent)
		l.phase += n
		l.gate.Return(free(w), uint64(n), succeeded(w))
	}
}

// unlock lends anew, and releases the mutex.
func (l *Limiter) unlock() {
	defer l.mu.Unlock() // whatever an algorithm does
	if l.drained != nil && l.gate.Inflight() == 0 && l.gate.Waiting() == 0 {
		close(l.drained)
		l.drained = nil
	}
	l.lent = l.lendLocked()
	l.credit.word.Store(l.lent)
}

func (l *Limiter) lendLocked() uint64 {
	if l.closed || l.drained != nil {
		return shut
	}
	n, ok := l.gate.Lend()
	if !ok {
		w := uint64(shut)
		if l.gate.Waiting() > 0 && len(l.number) == 0 {
			w |= crowded
			if !l.fair && l.gate.Full() {
				w |= full
			}
		}
		return w
	}
	if n > freeMask {
		l.gate.Return(n-freeMask, 0, 0)
		n = freeMask
	}
	l.credit.total.Store(int64(l.gate.Inflight()))
	return uint64(n) | uint64(l.phase%maxPhase)*oneAdmitted
}

// time says when n units were taken, out of the word w, and with how many then
// in flight.
//
// If a part of the samples is enough, most admissions are not timed: reading
// the clock is most of what an admission costs. Their instant is the complement
// of one not long before.
func (l *Limiter) time(w uint64, n int) (at time.Duration, inflight int) {
	if mix(admitted(w))&l.credit.mask.Load() != 0 {
		return ^time.Duration(l.credit.lately.Load()), 0
	}
	// The total may already be that of the next credit.
	return l.now(), max(int(l.credit.total.Load())-free(w), 0) + n
}

// Of admissions that need not all be timed, about so many a second are.
const (
	timedOften  = time.Second / 4000
	timedRarely = time.Second / 1000
	longAgo     = time.Second / 10
)

type explainer interface{ Evidence() limit.Evidence }

// sparseLocked begins with an algorithm.
func (l *Limiter) sparseLocked(alg limit.Algorithm) {
	s, ok := alg.(interface{ Sparse() bool })
	_, fixed := alg.(limit.Fixed)
	l.sparse = fixed || ok && s.Sparse()
	l.explainer, _ = alg.(explainer)
	l.credit.mask.Store(0)
}

// thinLocked chooses how many admissions are timed, from when two of them left.
func (l *Limiter) thinLocked(now time.Duration) {
	l.credit.lately.Store(int64(now))
	apart := now - l.timed
	if apart > longAgo {
		l.lull, l.lulled = l.timed, now
	}
	l.timed = now
	switch mask := l.credit.mask.Load(); {
	case !l.sparse:
	case apart < timedOften && mask < rarest-1:
		l.credit.mask.Store(2*mask + 1)
	case apart > timedRarely && mask > 0:
		l.credit.mask.Store(mask / 2)
		if apart > longAgo {
			l.credit.mask.Store(0)
		}
	}
}

// beganLocked returns the latest instant at which work may have begun that was
// not timed: not long after its stamp or, if nothing that was timed left for
// long then, when something did.
func (l *Limiter) beganLocked(stamp, now time.Duration) time.Duration {
	switch {
	case stamp == l.timed && now-l.timed > longAgo:
		l.credit.mask.Store(0) // there were many, and now there are few: time them all
		return now
	case stamp == l.lull:
		return l.lulled
	}
	return stamp
}
