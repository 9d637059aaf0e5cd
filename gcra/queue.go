package gcra

import (
	"time"

	"github.com/weir-go/weir"
)

// A Queue keeps the order of those who took tokens of one Bucket ahead of
// time, so that what one of them gives back serves those behind it. It leaves
// the Bucket itself to its owner: methods say how many tokens to refund.
//
// There are two kinds. Those who wait are told when it is their turn, so they
// can move forward. Those who hold a promise were told an instant, and keep
// it: so of what is given back, only as much can be refunded as exceeds the
// promises made later (the rule of golang.org/x/time/rate), and the rest once
// no promise is open.
//
// The zero Queue is empty. The Quota given to the methods must be the one that
// the Buckets are of, which only Move changes.
type Queue[W any] struct {
	head, tail *Waiter[W]
	base, end  uint64 // the Buckets before the head, and of the tail
	length     int
	waiting    int    // tokens of those who wait
	order      uint64 // how many have come, of both kinds

	promised uint64        // tokens ever promised
	past     uint64        // those of them when no promise was open the last time
	open     int           // tokens promised, neither withdrawn nor due
	owed     int           // tokens given back but not refunded yet
	last     time.Duration // when all promises are due
}

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
type Promise struct {
	order uint64 // how many had come, this one included
	index uint64 // tokens promised, its own included
}

// Len returns how many wait.
func (l *Queue[W]) Len() int { return l.length }

// Tokens returns how many tokens are taken ahead of time: by those who wait
// and by open promises.
func (l *Queue[W]) Tokens() int { return l.waiting + l.open }

// Join adds somebody who waits for n tokens, and for whom Reserve has returned
// the Bucket b.
func (l *Queue[W]) Join(b Bucket, n int, who W) *Waiter[W] {
	l.order++
	w := &Waiter[W]{Who: who, n: n, place: Promise{l.order, l.promised}, prev: l.tail, queued: true}
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

// Promise notes that n tokens were reserved for the instant at.
func (l *Queue[W]) Promise(now time.Duration, n int, at time.Duration) Promise {
	l.close(now)
	l.order++
	l.promised += uint64(n)
	l.open += n
	l.last = max(l.last, at)
	return Promise{l.order, l.promised}
}

// close ends all promises once the last of them is due.
func (l *Queue[W]) close(now time.Duration) {
	if l.last < now {
		l.past, l.open, l.owed = l.promised, 0, 0
	}
}

// Next removes and returns the first who waits, if its turn has come.
func (l *Queue[W]) Next(q *Quota, now time.Duration) (who W, ok bool) {
	w := l.head
	if w == nil || q.Ready(Bucket(l.base+w.gap), now) > 0 {
		return who, false
	}
	l.base += w.gap
	l.remove(w)
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

// Cancel removes one who waits, and returns how many of its tokens to refund;
// false if its turn has come before.
func (l *Queue[W]) Cancel(q *Quota, now time.Duration, w *Waiter[W]) (refund int, ok bool) {
	if !w.queued {
		return 0, false
	}
	l.close(now)
	behind := w.next
	if behind == nil {
		l.end -= w.gap
	} else {
		behind.gap += w.gap
	}
	l.remove(w)
	refund = l.refundable(w.place, w.n)
	l.forward(q, behind, refund)
	return refund, true
}

// Withdraw gives n tokens back, of those taken with the promise p, or with the
// zero Promise if they were there. It returns how many to refund, and whether
// to Align after that.
func (l *Queue[W]) Withdraw(q *Quota, now time.Duration, p Promise, n int) (refund int, align bool) {
	l.close(now)
	refund = l.refundable(p, n)
	behind := l.head
	for behind != nil && behind.place.order < p.order {
		behind = behind.next
	}
	l.forward(q, behind, refund)
	if p.index > l.past {
		l.open -= min(n, l.open)
		if p.index == l.promised {
			l.promised -= uint64(n) // nothing is promised after it
		}
	}
	if l.open == 0 && l.owed > 0 {
		refund += l.owed
		l.past, l.owed = l.promised, 0
		align = l.head != nil
	}
	return refund, align
}

// refundable returns how many of n tokens, given back at the place p, no
// promise made later takes; the others are owed.
func (l *Queue[W]) refundable(p Promise, n int) int {
	later := l.promised - min(max(p.index, l.past), l.promised)
	if later >= uint64(n) {
		l.owed += n
		return 0
	}
	l.owed += int(later)
	return n - int(later)
}

// forward moves those from w on forward by n tokens.
func (l *Queue[W]) forward(q *Quota, w *Waiter[W], n int) {
	if w == nil {
		return
	}
	// Nobody is moved to before the one before him. The head has nobody before
	// him: those that base stands for have what they took.
	room := w.gap - min(q.units(w.n), w.gap)
	if w == l.head {
		room += l.base
	}
	units := min(q.units(n), room)
	l.end -= units
	if w == l.head {
		below := min(units, l.base)
		l.base -= below
		units -= below
	}
	w.gap -= units
}

// Align lets those who wait stand right behind each other, the last at b, the
// Bucket after the refund that Withdraw asked for: nobody else has taken
// tokens ahead of time.
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
	if l.head != nil {
		units := q.units(n)
		l.base += units
		l.end += units
	}
}

// Move puts the Queue under the Quota to: those who wait need as many tokens
// more as before. Promises keep their instants.
func (l *Queue[W]) Move(q *Quota, now time.Duration, to *Quota) {
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
// of their turn (weir.Never: it does not come), and returns how many tokens to
// refund.
func (l *Queue[W]) Drop(q *Quota, now time.Duration, late func(who W, at time.Duration) bool) (refund int) {
	b := l.base
	for w := l.head; w != nil; {
		next := w.next
		if late(w.Who, q.due(b+w.gap)) {
			n, _ := l.Cancel(q, now, w)
			refund += n
		} else {
			b += w.gap
		}
		w = next
	}
	return refund
}
