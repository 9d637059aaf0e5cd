package gate

import "time"

// A Ticket names a waiter. The zero Ticket names none.
type Ticket[W any] struct {
	waiter *waiter[W]
	seq    uint64 // a waiter is used again, a seq never
}

// A place is where a waiter stands.
type place uint8

const (
	queued  place = iota // in a queue of a band
	claims               // it is the claim: first of all, but too large for now
	evicted              // Next will tell it so
)

type waiter[W any] struct {
	shell W
	req   Request
	since time.Duration
	seq   uint64   // 0 if it does not wait
	gate  *Gate[W] // in which it waits
	links [2]link[W]
	band  *band[W] // where it is queued, or was
	queue int
	place place
}

// A link has the neighbours in a list. Waiters to be used again are chained by the next of
// byPlace.
type link[W any] struct{ prev, next *waiter[W] }

// Every waiter is in two lists at most.
const (
	byPlace   = iota // a queue, or the evicted
	byArrival        // the waiters but the evicted
)

// A list is a doubly linked list, which any waiter can leave in constant time.
type list[W any] struct {
	head, tail *waiter[W]
	len        int
}

// insert puts w after another waiter of the list, or first, after nil.
func (l *list[W]) insert(kind int, w, after *waiter[W]) {
	next := l.head
	if after != nil {
		next = after.links[kind].next
	}
	w.links[kind] = link[W]{after, next}
	l.join(kind, after, w)
	l.join(kind, w, next)
	l.len++
}

func (l *list[W]) remove(kind int, w *waiter[W]) {
	l.join(kind, w.links[kind].prev, w.links[kind].next)
	l.len--
}

// join makes two waiters neighbours; nil is the end of the list.
func (l *list[W]) join(kind int, a, b *waiter[W]) {
	if a == nil {
		l.head = b
	} else {
		a.links[kind].next = b
	}
	if b == nil {
		l.tail = a
	} else {
		b.links[kind].prev = a
	}
}

// newWaiter returns a waiter with a new seq. Waiters are used again, so a gate allocates
// only while more requests wait than ever before.
func (g *Gate[W]) newWaiter() *waiter[W] {
	w := g.unused
	if w == nil {
		w = &waiter[W]{}
	} else {
		g.unused = w.links[byPlace].next
	}
	g.seq++
	w.seq, w.gate = g.seq, g
	return w
}

// take removes a waiter from wherever it is.
func (g *Gate[W]) take(w *waiter[W]) {
	switch w.place {
	case queued:
		g.dequeue(w)
	case claims:
		g.claim = nil
	}
	if w.place == evicted {
		g.gone.remove(byPlace, w)
	} else {
		g.line.remove(byArrival, w)
	}
	var none W
	w.shell, w.seq = none, 0 // so that it can be collected
	w.links[byPlace].next = g.unused
	g.unused = w
}
