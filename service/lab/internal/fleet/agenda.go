package fleet

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/heap"
)

// never is later than all instants of a run.
const never time.Duration = math.MaxInt64

// A kind of event.
type kind uint8

const (
	evSend    kind = iota // a leaf begins an exchange
	evAsk                 // an exchange reaches the upstream
	evAnswer              // its answer reaches the leaf
	evTimeout             // a leaf gives an exchange up
	evDemand              // a demand changes
	evFault               // a fault begins or ends
	evStart               // a leaf starts for the first time
	evLeaf                // a leaf stops or starts
)

// An event is ordered by its instant and, within one, in the order of scheduling.
type event struct {
	at     time.Duration
	seq    uint64
	kind   kind
	index  int32
	gen    uint32 // of its subject; if that has another generation by now, the event is stale
	flight *flight
}

// An agenda has the events to come.
type agenda struct {
	events *heap.Heap[event]
	seq    uint64
}

func newAgenda() agenda {
	return agenda{events: heap.New(func(a, b event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq })}
}

func (a *agenda) push(at time.Duration, k kind, index int, gen uint32, f *flight) {
	a.seq++
	a.events.Push(event{at, a.seq, k, int32(index), gen, f})
}

// pop takes the first event that is not after until.
func (a *agenda) pop(until time.Duration) (e event, ok bool) {
	if a.events.Len() == 0 || a.events.Min().at > until {
		return e, false
	}
	return a.events.Pop(), true
}
