package gate

import "time"

// A Ticket names a waiter. The zero Ticket names nobody.
type Ticket struct {
	slot int
	seq  uint64 // of the waiter: a slot is used again, a seq never
}

type waiter[W any] struct {
	who        W
	n          int
	since      time.Duration
	seq        uint64
	prev, next int // slots; free slots are chained by next
}

// fifo is a doubly linked list in a slice: any waiter can leave in constant
// time, and slots are used again, so that a queue allocates only while it is
// longer than ever before. Slot 0 is the ring's anchor: its next is the head,
// its prev the tail.
type fifo[W any] struct {
	slots []waiter[W]
	free  int // first free slot, 0 if none
	len   int
	seq   uint64
}

func (q *fifo[W]) push(w waiter[W]) Ticket {
	if q.slots == nil {
		q.slots = make([]waiter[W], 1)
	}
	slot := q.free
	if slot == 0 {
		slot = len(q.slots)
		q.slots = append(q.slots, waiter[W]{})
	} else {
		q.free = q.slots[slot].next
	}
	q.seq++
	q.len++
	tail := q.slots[0].prev
	w.seq, w.prev, w.next = q.seq, tail, 0
	q.slots[slot] = w
	q.slots[tail].next = slot
	q.slots[0].prev = slot
	return Ticket{slot, w.seq}
}

func (q *fifo[W]) head() (*waiter[W], bool) {
	if q.len == 0 {
		return nil, false
	}
	return &q.slots[q.slots[0].next], true
}

func (q *fifo[W]) pop() {
	slot := q.slots[0].next
	q.remove(Ticket{slot, q.slots[slot].seq})
}

func (q *fifo[W]) remove(t Ticket) bool {
	if t.slot <= 0 || t.slot >= len(q.slots) || q.slots[t.slot].seq != t.seq {
		return false
	}
	w := &q.slots[t.slot]
	q.slots[w.prev].next = w.next
	q.slots[w.next].prev = w.prev
	*w = waiter[W]{next: q.free} // forget who, so that it can be collected
	q.free = t.slot
	q.len--
	return true
}
