package gate

import "time"

// A Ticket names a waiter. The zero Ticket names none.
type Ticket struct {
	slot int
	seq  uint64 // of the waiter: a slot is used again, a seq never
}

// A place is where a waiter stands.
type place uint8

const (
	queued  place = iota // in a queue of a band
	claims               // it is the claim: first of all, but too large for now
	evicted              // Next will tell it so
)

type waiter[W any] struct {
	waiter W
	req    Request
	since  time.Duration
	seq    uint64
	links  [2]link // in the lists of each kind
	band   int     // where it is queued, or was
	queue  int
	place  place
}

// A link is to the neighbours in a list: slots, or 0. Free slots are chained
// by the next of byPlace.
type link struct{ prev, next int }

// Every waiter is in two lists at most.
const (
	byPlace   = iota // a queue, or the evicted
	byArrival        // the waiters but the evicted
)

// A list is a doubly linked list of waiters, of slots in a slice. Any waiter
// can leave in constant time.
type list struct{ head, tail, len int }

// slots has the waiters. Slots are reused, so a gate allocates only while more requests
// wait than ever before. Slot 0 stays empty.
type slots[W any] struct {
	all  []waiter[W]
	free int // first free slot, 0 if none
	seq  uint64
}

// take returns a slot with a new seq for a waiter.
func (s *slots[W]) take() int {
	if s.all == nil {
		s.all = make([]waiter[W], 1)
	}
	slot := s.free
	if slot == 0 {
		slot = len(s.all)
		s.all = append(s.all, waiter[W]{})
	} else {
		s.free = s.all[slot].links[byPlace].next
	}
	s.seq++
	s.all[slot].seq = s.seq
	return slot
}

// drop forgets a waiter, so that it can be collected.
func (s *slots[W]) drop(slot int) {
	w := &s.all[slot]
	var zero W
	w.waiter, w.seq = zero, 0
	w.links[byPlace].next = s.free
	s.free = slot
}

func (s *slots[W]) knows(t Ticket) bool {
	return t.slot > 0 && t.slot < len(s.all) && s.all[t.slot].seq == t.seq
}

// insert puts a waiter after another one of the list, or first, after 0.
func (s *slots[W]) insert(l *list, kind, slot, after int) {
	next := l.head
	if after != 0 {
		next = s.all[after].links[kind].next
		s.all[after].links[kind].next = slot
	} else {
		l.head = slot
	}
	if next != 0 {
		s.all[next].links[kind].prev = slot
	} else {
		l.tail = slot
	}
	s.all[slot].links[kind] = link{after, next}
	l.len++
}

func (s *slots[W]) remove(l *list, kind, slot int) {
	at := s.all[slot].links[kind]
	if at.prev != 0 {
		s.all[at.prev].links[kind].next = at.next
	} else {
		l.head = at.next
	}
	if at.next != 0 {
		s.all[at.next].links[kind].prev = at.prev
	} else {
		l.tail = at.prev
	}
	l.len--
}
