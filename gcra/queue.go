package gcra

import (
	"slices"
	"time"

	"github.com/weir-go/weir"
)

// A Queue keeps the order of those who took tokens of one Bucket ahead of
// time, so that what one of them gives back serves those behind it. It leaves
// the Bucket itself to its owner: methods say by how much to lower it.
//
// There are two kinds. Those who wait are told when it is their turn, so they
// can move forward. Those who hold a promise were told an instant, and keep
// it: so of what is given back, only as much can be refunded as exceeds the
// promises made later (the rule of golang.org/x/time/rate) and leaves a full
// bucket enough for each of them at its instant. The rest is refunded once no
// promise is open.
//
// The zero Queue is empty. The Quota given to the methods must be the one that
// the Buckets are of, which only Move changes.
type Queue[W any] struct {
	head, tail *Waiter[W]
	base, end  uint64 // the Buckets before the head, and of the tail
	length     int
	waiting    int       // tokens of those who wait
	came       uint64    // how many have come, of both kinds
	promises   []promise // that are open, by their instants
	promised   int       // tokens of those
	floor      uint64    // the least Bucket that bears those that are past
	owed       uint64    // units given back by which the Bucket was not lowered yet
	left       uint64    // the Bucket as the last of them left it
	taken      uint64    // units that others have taken while some were owed
}

// A promise is open until its instant or until it is withdrawn.
type promise struct {
	first, place Promise // two, if it stands for several
	at           time.Duration
	n            int
}

// maxPromises bounds the promises that are told apart. Beyond it, the two
// earliest count as one, at the later instant.
const maxPromises = 1 << 16

// A Waiter is a place in a Queue, for somebody who waits for n tokens.
type Waiter[W any] struct {
	Who W

	n      int
	place  Promise
	gap    uint64 // units from the Bucket of the one before to its own
	prev   *Waiter[W]
	next   *Waiter[W]
	queued bool
}

// A Promise is a place among those who took tokens ahead of time. The zero
// Promise is before all others: that of somebody who took what was there.
type Promise uint64

// Len returns how many wait.
func (l *Queue[W]) Len() int { return l.length }

// Tokens returns how many tokens are taken ahead of time: by those who wait
// and by open promises.
func (l *Queue[W]) Tokens(q *Quota, now time.Duration) int {
	l.close(q, now)
	return l.waiting + l.promised
}

// Join adds somebody who waits for n tokens, and for whom Reserve has returned
// the Bucket b.
func (l *Queue[W]) Join(q *Quota, b Bucket, n int, who W) *Waiter[W] {
	l.note(uint64(b) - min(q.units(n), uint64(b)))
	l.left = uint64(b)
	l.came++
	w := &Waiter[W]{Who: who, n: n, place: Promise(l.came), prev: l.tail, queued: true}
	if l.tail == nil {
		l.head, l.base, l.end = w, 0, 0
	} else {
		l.tail.next = w
	}
	w.gap = max(uint64(b), l.end) - l.end
	l.tail, l.end = w, l.end+w.gap
	l.length++
	l.waiting += n
	return w
}

// Promise notes that n tokens were reserved for the instant at; b is the Bucket
// that Reserve has returned.
func (l *Queue[W]) Promise(q *Quota, now time.Duration, b Bucket, n int, at time.Duration) Promise {
	l.close(q, now)
	l.note(uint64(b) - min(q.units(n), uint64(b)))
	l.left = uint64(b)
	l.came++
	if n == 0 {
		return Promise(l.came)
	}
	l.promised += n
	i := len(l.promises)
	for i > 0 && l.promises[i-1].at > at {
		i--
	}
	l.promises = slices.Insert(l.promises, i, promise{Promise(l.came), Promise(l.came), at, n})
	if p := l.promises; len(p) > maxPromises {
		p[1].n += p[0].n
		p[1].first = min(p[0].first, p[1].first)
		p[1].place = max(p[0].place, p[1].place)
		l.promises = p[1:]
	}
	return Promise(l.came)
}

// close ends the promises whose instant is past.
func (l *Queue[W]) close(q *Quota, now time.Duration) {
	i := 0
	for ; i < len(l.promises) && l.promises[i].at < now; i++ {
		l.promised -= l.promises[i].n
		l.floor = l.promises[i].bear(q, l.floor)
	}
	if l.promises = l.promises[i:]; len(l.promises) == 0 {
		l.owed = 0 // what is owed behind the last of them came to nothing
	}
}

// bear returns the least Bucket after a promise, given that before it.
func (p *promise) bear(q *Quota, b uint64) uint64 {
	return add(max(b, q.line(p.at)), q.units(p.n))
}

// note finds out what others took, who are not in the Queue: the Bucket b is
// greater than it was left.
func (l *Queue[W]) note(b uint64) {
	if l.owed == 0 {
		l.taken = 0
	} else if b > l.left {
		l.taken = add(l.taken, b-l.left)
	}
}

// withdraw takes n tokens off the open promise p, if it is one.
func (l *Queue[W]) withdraw(p Promise, n int) {
	for i := range l.promises {
		o := &l.promises[i]
		if p < o.first || p > o.place {
			continue
		}
		n = min(n, o.n)
		l.promised -= n
		if o.n -= n; o.n == 0 {
			l.promises = slices.Delete(l.promises, i, i+1)
		}
		return
	}
}

// back returns by how many units to lower the Bucket b for n tokens given back
// at the place p. Those that a promise keeps back are owed. Those that were
// spent, and now make the bucket flow over under those who wait, are lost.
func (l *Queue[W]) back(q *Quota, now time.Duration, p Promise, n int, spent bool, b Bucket, behind *Waiter[W]) uint64 {
	units := q.units(n)
	kept, least := uint64(0), max(l.floor, q.line(now))
	for i := range l.promises {
		o := &l.promises[i]
		if o.place > p {
			kept = add(kept, q.units(o.n))
		}
		least = o.bear(q, least)
	}
	kept = min(kept, units)
	if spent && l.waiting > 0 || len(l.promises) > 0 || l.floor > q.line(now) {
		least = add(least, q.units(l.waiting))
		kept = max(kept, units-min(units, uint64(b)-min(least, uint64(b))))
	}
	if len(l.promises) > 0 && behind != nil {
		pos := l.base
		past := false
		for w := l.head; w != nil; w = w.next {
			pos += w.gap
			if past = past || w == behind; past {
				least := max(l.floor, q.line(now))
				for i := range l.promises {
					if l.promises[i].first < w.place {
						least = l.promises[i].bear(q, least)
					}
				}
				least = add(least, q.units(w.n))
				kept = max(kept, units-min(units, pos-min(least, pos)))
			}
		}
	}
	if len(l.promises) > 0 { // else it flows over
		l.owed += kept
	}
	return min(units-kept, uint64(b)) // less is full, too
}

// Next removes and returns the first who waits, if its turn has come.
func (l *Queue[W]) Next(q *Quota, now time.Duration) (who W, ok bool) {
	w := l.head
	if w == nil || q.Ready(Bucket(l.base+w.gap), now) > 0 {
		return who, false
	}
	l.base += w.gap
	l.remove(w)
	if len(l.promises) > 0 || l.floor > q.line(now) {
		served := promise{at: q.due(l.base), n: w.n}
		l.floor = served.bear(q, l.floor)
	}
	return w.Who, true
}

// Deadline returns the instant of the next turn, if somebody waits for one
// that will come.
func (l *Queue[W]) Deadline(q *Quota) (at time.Duration, ok bool) {
	if l.head == nil {
		return 0, false
	}
	at = q.due(l.base + l.head.gap)
	return at, at != weir.Never
}

// due returns the instant when a Bucket is out of debt.
func (q *Quota) due(b uint64) time.Duration {
	if q.inf || b <= q.burst {
		return 0
	}
	return q.at(b - q.burst)
}

func (l *Queue[W]) remove(w *Waiter[W]) {
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	l.length--
	l.waiting -= w.n
}

// Cancel removes one who waits, and returns by how much to lower the Bucket b;
// false if its turn has come before.
func (l *Queue[W]) Cancel(q *Quota, now time.Duration, w *Waiter[W], b Bucket) (down Bucket, ok bool) {
	if !w.queued {
		return 0, false
	}
	l.close(q, now)
	l.note(uint64(b))
	behind := w.next
	if behind == nil {
		l.end -= w.gap
	} else {
		behind.gap += w.gap
	}
	l.remove(w)
	units := l.back(q, now, w.place, w.n, false, b, behind)
	l.forward(q, behind, units)
	l.left = uint64(b) - min(units, uint64(b))
	return Bucket(units), true
}

// Withdraw gives n tokens back, of those taken with the promise p, or with the
// zero Promise if they were there. It returns by how much to lower the Bucket
// b, and whether to Align after that.
func (l *Queue[W]) Withdraw(q *Quota, now time.Duration, p Promise, n int, b Bucket) (down Bucket, align bool) {
	l.close(q, now)
	l.note(uint64(b))
	l.withdraw(p, n)
	behind := l.head
	for behind != nil && behind.place < p {
		behind = behind.next
	}
	units := l.back(q, now, p, n, true, b, behind)
	l.forward(q, behind, units)
	if len(l.promises) == 0 && l.owed > 0 {
		// Had it come back at once, the bucket might have been full since, and
		// what was taken then would be missing.
		least := add(add(max(l.floor, q.line(now)), l.taken), q.units(l.waiting))
		left := uint64(b) - min(units, uint64(b))
		units += min(l.owed, left-min(least, left))
		l.owed = 0
		align = l.head != nil
	}
	l.left = uint64(b) - min(units, uint64(b))
	return Bucket(units), align
}

// forward moves those from w on forward.
func (l *Queue[W]) forward(q *Quota, w *Waiter[W], units uint64) {
	if w == nil {
		return
	}
	// Nobody is moved to before the one before him. The head has nobody before
	// him: those that base stands for have what they took.
	room := w.gap - min(q.units(w.n), w.gap)
	if w == l.head {
		room += l.base
	}
	units = min(units, room)
	l.end -= units
	if w == l.head {
		below := min(units, l.base)
		l.base -= below
		units -= below
	}
	w.gap -= units
}

// Align lets those who wait stand right behind each other, the last at b, the
// Bucket after Withdraw: nobody else has taken tokens ahead of time.
func (l *Queue[W]) Align(q *Quota, b Bucket) {
	all := uint64(0)
	for w := l.head; w != nil; w = w.next {
		w.gap = q.units(w.n)
		all += w.gap
	}
	l.base = uint64(b) - min(all, uint64(b))
	l.end = l.base + all
}

// Delay moves all who wait backward by n tokens, which a Charge has taken.
func (l *Queue[W]) Delay(q *Quota, n int) {
	units := q.units(n)
	l.left = add(l.left, units)
	l.taken = add(l.taken, units)
	if l.head != nil {
		l.base += units
		l.end += units
	}
}

// Move puts the Queue under the Quota to: those who wait need as many tokens
// more as before. Promises keep their instants.
func (l *Queue[W]) Move(q *Quota, now time.Duration, to *Quota) {
	if l.floor > 0 {
		l.floor = uint64(q.Move(Bucket(l.floor), now, to))
	}
	if l.owed > 0 && !q.inf && !to.inf {
		l.owed, l.taken = convert(l.owed, q, to), convert(l.taken, q, to)
		l.left = uint64(q.Move(Bucket(l.left), now, to))
	}
	was, is := l.base, uint64(0)
	l.base = 0
	for w := l.head; w != nil; w = w.next {
		was += w.gap
		b := uint64(q.Move(Bucket(was), now, to))
		w.gap = max(b, is) - is
		is += w.gap
	}
	l.end = is
}

// Drop removes all those who wait and of whom late says so, given the instant
// of their turn (weir.Never: it does not come), and returns by how much to
// lower the Bucket b of all.
func (l *Queue[W]) Drop(q *Quota, now time.Duration, b Bucket, late func(who W, at time.Duration) bool) (down Bucket) {
	before := l.base
	for w := l.head; w != nil; {
		next := w.next
		if w == l.head {
			before = l.base // Cancel may have moved it
		}
		if late(w.Who, q.due(before+w.gap)) {
			more, _ := l.Cancel(q, now, w, b-down)
			down += more
		} else {
			before += w.gap
		}
		w = next
	}
	return down
}
