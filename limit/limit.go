package limit

import (
	"time"

	"github.com/weir-go/weir"
)

// A Sample describes one finished piece of work. Instants are on any one clock; they are
// compared only with each other.
type Sample struct {
	Start, End time.Duration // admitted; released
	Waited     time.Duration // in the queue, before Start
	Inflight   int           // units in flight at Start, its own included
	N          int           // units that it held. If zero, 1
	Outcome    weir.Outcome
	// Cost is how long work of its route takes, relative to all work under the limit, on average.
	// If zero, 1.
	Cost float64
}

// An Algorithm sets a concurrency limit and learns from samples. It is not
// safe for concurrent use. It may be a Controller.
type Algorithm interface {
	// Limit returns the units that may be in flight now, >= 0.
	Limit() int
	// Observe learns from a sample, in the order of their ends, and returns
	// why the limit moved; Kept if it did not.
	Observe(Sample) Cause
}

// A Controller is an Algorithm that changes its limit with time, too, and says why. Package inflight
// calls its methods. Auto and a slow start are Controllers.
type Controller interface {
	Algorithm
	// SetEpoch is called before all else: d is the time since the Unix epoch at instant zero.
	SetEpoch(d time.Duration)
	// Deadline returns the instant until which the limit is lowered, if it is lowered for a
	// moment. While requests wait, Expire is due then.
	Deadline() (at time.Duration, ok bool)
	// Tick returns the instant at which Expire is due even if no request waits, if there is one.
	Tick() (at time.Duration, ok bool)
	// Expire changes the limit without a sample, if a change is due, and returns why.
	Expire(now time.Duration) Cause
	// Evidence returns the measurements behind the last change by name, times in seconds.
	Evidence() map[string]float64
	// Sparse reports whether a random part of thousands of samples a second is enough.
	Sparse() bool
}

// A Cause says why a limit changed.
type Cause uint8

const (
	Kept       Cause = iota // it did not
	Grown                   // the limit was used and all went well
	Dropped                 // work failed because of load
	Slow                    // work took longer than it may
	Set                     // an operator or the program set it
	Queue                   // latency says that work queues
	Throughput              // more in flight gave more, or less gave no less
	Floor                   // it was raised to its minimum
	Ceiling                 // it was lowered to its maximum
	Idle                    // it was not used
	Undone                  // a cut for failures is taken back: they were not because of load, or are over
	Drain                   // it is halved for a moment, to see how long work takes without a queue
)

var causes = [...]string{"kept", "grown", "dropped", "slow", "set", "queue", "throughput", "floor", "ceiling", "idle", "undone", "drain"}

// String returns the cause as metrics and logs spell it.
func (c Cause) String() string {
	if int(c) < len(causes) {
		return causes[c]
	}
	return "unknown"
}

// Fixed returns a limit that never moves. Zero, or a negative n, admits nothing.
func Fixed(n int) Algorithm { return fixed(max(n, 0)) }

type fixed int

func (f fixed) Limit() int { return int(f) }

func (fixed) Observe(Sample) Cause { return Kept }
