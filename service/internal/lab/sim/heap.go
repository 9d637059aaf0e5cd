package sim

import "time"

// A kind of event.
type kind uint8

const (
	evArrive  kind = iota // the next call of an open-loop client
	evUser                // a user of a closed loop begins a call
	evRetry               // a call begins another attempt
	evPatient             // the head of a client's queue of time-outs
	evTimeout             // a time-out that is not in the order of that queue
	evFinish              // a job's own work is done
	evShared              // the least of a processor-sharing station's work is done
	evLate                // the caller of a job has given up
	evGate                // a gate's deadline
	evChange              // a station's next change
	evTurn                // a job gets its turn at a rate
)

const kindBits = 4

// An event is a value of 24 bytes. Events are ordered by instant and, within one, in
// the order of scheduling.
type event struct {
	at    time.Duration
	key   uint64 // sequence number << kindBits | kind
	index int32
	gen   uint32 // of its subject; if that has another generation by now, the event is stale
}

func (e *event) kind() kind { return kind(e.key & (1<<kindBits - 1)) }

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.key < f.key
}

// agenda is a 4-ary heap of events. A popped root leaves a hole that the next
// push fills, since most events schedule exactly one other.
type agenda struct {
	events []event
	seq    uint64
	hole   bool // events[0] is gone
}

func (a *agenda) push(at time.Duration, k kind, who int32, gen uint32) {
	a.seq++
	e := event{at, a.seq<<kindBits | uint64(k), who, gen}
	if a.hole {
		a.hole = false
		a.sink(e)
		return
	}
	i := len(a.events)
	a.events = append(a.events, e)
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&a.events[parent]) {
			break
		}
		a.events[i] = a.events[parent]
		i = parent
	}
	a.events[i] = e
}

// pop takes the first event that is not after until.
func (a *agenda) pop(until time.Duration) (e event, ok bool) {
	a.fill()
	if len(a.events) == 0 || a.events[0].at > until {
		return e, false
	}
	a.hole = true
	return a.events[0], true
}

// fill closes the hole.
func (a *agenda) fill() {
	if !a.hole {
		return
	}
	a.hole = false
	last := len(a.events) - 1
	e := a.events[last]
	a.events = a.events[:last]
	if last > 0 {
		a.sink(e)
	}
}

// first returns the instant of the first event.
func (a *agenda) first() time.Duration {
	if a.fill(); len(a.events) == 0 {
		return never
	}
	return a.events[0].at
}

// sink puts e at the root and restores the order.
func (a *agenda) sink(e event) {
	events := a.events
	i := 0
	for {
		first := 4*i + 1
		if first >= len(events) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(events)); c++ {
			if events[c].before(&events[least]) {
				least = c
			}
		}
		if !events[least].before(&e) {
			break
		}
		events[i] = events[least]
		i = least
	}
	events[i] = e
}

// ring is a queue of values. It allocates only if it is longer than ever before.
type ring[T any] struct {
	slots []T // a power of two
	first int
	len   int
}

func (r *ring[T]) push(v T) {
	if r.len == len(r.slots) {
		bigger := make([]T, max(16, 2*r.len))
		n := copy(bigger, r.slots[r.first:])
		copy(bigger[n:], r.slots[:r.first])
		r.slots, r.first = bigger, 0
	}
	r.slots[(r.first+r.len)&(len(r.slots)-1)] = v
	r.len++
}

func (r *ring[T]) pop() T {
	v := r.slots[r.first]
	r.first = (r.first + 1) & (len(r.slots) - 1)
	r.len--
	return v
}

func (r *ring[T]) head() *T { return &r.slots[r.first] }

func (r *ring[T]) tail() *T { return &r.slots[(r.first+r.len-1)&(len(r.slots)-1)] }
