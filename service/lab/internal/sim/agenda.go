package sim

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/heap"
)

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
	evStall               // a stall of a process begins or ends
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

// An agenda has the events to come.
type agenda struct {
	events *heap.Heap[event]
	seq    uint64
}

func newAgenda() agenda {
	return agenda{events: heap.New(func(a, b event) bool { return a.at < b.at || a.at == b.at && a.key < b.key })}
}

func (a *agenda) push(at time.Duration, k kind, who int32, gen uint32) {
	a.seq++
	a.events.Push(event{at, a.seq<<kindBits | uint64(k), who, gen})
}

// pop takes the first event that is not after until.
func (a *agenda) pop(until time.Duration) (e event, ok bool) {
	if a.first() > until || a.events.Len() == 0 {
		return e, false
	}
	return a.events.Pop(), true
}

// first returns the instant of the first event.
func (a *agenda) first() time.Duration {
	if a.events.Len() == 0 {
		return never
	}
	return a.events.Min().at
}

// A queue is first in, first out. It reuses the memory of the items that have left.
type queue[T any] struct {
	items []T // the first of them have left
	left  int
}

func (q *queue[T]) waiting() []T { return q.items[q.left:] }

func (q *queue[T]) push(item T) {
	if len(q.items) == cap(q.items) && q.left > len(q.items)/2 {
		q.items, q.left = slices.Delete(q.items, 0, q.left), 0
	}
	q.items = append(q.items, item)
}

func (q *queue[T]) pop() T {
	q.left++
	return q.items[q.left-1]
}
