package inflight

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// A credit is a number of units that the gate has lent. While no request waits,
// requests take their units from it and put them back, by one compare-and-swap
// each. It is one word, so that its counts always agree:
//
//	shut | crowded | full | succeeded (18 bits) | admitted (19 bits) | free (24 bits)
//
// Every other operation locks the mutex, shuts the credit, returns the rest of it
// to the gate, asks the gate, and borrows a new credit before it unlocks. The
// highest bit of each count (collect) forces that too, before the count overflows.
type credit struct {
	word atomic.Uint64

	total  atomic.Int64  // units in flight and free, when the credit was lent
	held   atomic.Int64  // units of abandoned work among them, which no permit holds
	mask   atomic.Uint64 // an admission is timed if mix of its number has none of these bits; 0: all are timed
	lately atomic.Int64  // the instant of a recent departure of timed work

	overLimit, queueFull atomic.Uint64 // refused without asking the gate
}

const (
	freeBits, admittedBits, succeededBits = 24, 19, 18

	oneAdmitted  = 1 << freeBits
	oneSucceeded = 1 << (freeBits + admittedBits)

	freeMask = oneAdmitted - 1
	collect  = 1<<(freeBits+admittedBits-1) | 1<<(freeBits+admittedBits+succeededBits-1) // the highest bits of both counts

	full    = 1 << 61 // the queue is full
	crowded = 1 << 62 // requests wait, or the next one would
	shut    = 1 << 63 // ask the gate

	rarest   = 64      // of 64 admissions, at least one is timed
	maxPhase = 1 << 16 // the counts of admissions start again from 0 at this number
)

// mix makes a count look random (Knuth's multiplicative hash). Without it, of callers that
// take turns some would always be timed and others never.
func mix(count int) uint64 { return uint64(uint32(count)*2654435769) >> 20 }

func free(w uint64) int     { return int(w & freeMask) }
func admitted(w uint64) int { return int(w>>freeBits) & (1<<admittedBits - 1) }
func succeeded(w uint64) uint64 {
	return w >> (freeBits + admittedBits) & (1<<succeededBits - 1)
}

// take takes n units if they are free and no request waits. If not, it returns
// the word that it read.
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

// put returns n units of successful work to the credit, and reports whether it did. It does not
// if the gate must be asked. It does not either if more units would be free than permits can have
// held: then a permit was copied and released twice, and the gate panics.
func (c *credit) put(n int) bool {
	for {
		w := c.word.Load()
		if w&(shut|collect) != 0 || n > min(int(c.total.Load()-c.held.Load()), freeMask)-free(w) {
			return false
		}
		if c.word.CompareAndSwap(w, w+oneSucceeded+uint64(n)) {
			return true
		}
	}
}

// lock takes the mutex and returns the credit to the gate.
func (l *Limiter) lock() {
	l.mu.Lock()
	w := l.credit.word.Swap(shut)
	if w&shut == 0 {
		n := admitted(w) - admitted(l.lent)
		l.phase += n
		// put can err by the units of a copied permit while one credit follows another.
		back := min(free(w), l.gate.Inflight()-l.gate.Held())
		l.gate.Return(back, uint64(n), succeeded(w))
	}
}

// unlock borrows a new credit, releases the mutex, and passes a change of the limit to
// Trace.
func (l *Limiter) unlock() {
	event := l.event
	l.event = nil
	l.lendAndUnlock()
	if event != nil {
		l.trace(*event)
	}
}

func (l *Limiter) lendAndUnlock() {
	defer l.mu.Unlock() // also if an algorithm panics
	if l.drained != nil && l.gate.Inflight() == 0 && l.gate.Waiting() == 0 {
		close(l.drained)
		l.drained = nil
	}
	l.lent = l.lendLocked()
	l.credit.word.Store(l.lent)
}

func (l *Limiter) lendLocked() uint64 {
	if l.drained != nil || l.observe != nil {
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
	if held := int64(l.gate.Held()); held != l.credit.held.Load() {
		l.credit.held.Store(held)
	}
	return uint64(n) | uint64(l.phase%maxPhase)*oneAdmitted
}

// time returns the instant at which n units were taken from the word w, and the note of their
// permit.
//
// If the algorithm needs only a part of the samples, most admissions are not
// timed: reading the clock and taking the mutex at the end would cost six times
// as much as the rest (BenchmarkAdmit in bench, with rarest at 1). An admission that is not timed
// gets the complement of credit.lately, which is negative: beganLocked makes an instant of it.
func (l *Limiter) time(ctx context.Context, w uint64, n int) (at time.Duration, note uint64) {
	if mix(admitted(w))&l.credit.mask.Load() != 0 {
		return ^time.Duration(l.credit.lately.Load()), plainNote(0, 0)
	}
	// The total may already belong to the next credit.
	inflight := max(int(l.credit.total.Load())-free(w), 0) + n
	return l.now(), plainNote(inflight, l.route(weir.ClassOf(ctx).Route))
}

// If not all admissions need be timed, 1000 to 4000 a second are: thinLocked keeps the time between
// the departures of two of them within these bounds. After longAgo without one, there was a lull.
const (
	timedOften  = time.Second / 4000
	timedRarely = time.Second / 1000
	longAgo     = time.Second / 10
)

// thinLocked is called when timed work departs, and doubles or halves the share of admissions that
// are timed if the last such departure was too recent or too long ago.
func (l *Limiter) thinLocked(now time.Duration) {
	l.credit.lately.Store(int64(now))
	apart := now - l.timed
	if apart > longAgo {
		l.lullFrom, l.lullTo = l.timed, now
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

// beganLocked returns the latest instant at which work without a timed admission may have begun.
// stamp is the instant of credit.lately at its admission. The work began soon after that or, if a
// lull followed, before the lull ended.
func (l *Limiter) beganLocked(stamp, now time.Duration) time.Duration {
	switch {
	case stamp == l.timed && now-l.timed > longAgo:
		l.credit.mask.Store(0) // admissions have become rare: time them all
		return now
	case stamp == l.lullFrom:
		return l.lullTo
	}
	return stamp
}
