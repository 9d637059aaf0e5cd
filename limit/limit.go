package limit

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// A Sample is what one finished piece of work teaches. Instants are on the
// clock of whoever observes; they are compared only with each other.
type Sample struct {
	Start, End time.Duration // admitted; released
	Waited     time.Duration // in the queue, before Start
	Inflight   int           // units in flight at Start, its own included
	N          int           // units that it held. If zero, 1
	Outcome    weir.Outcome
}

// An Algorithm sets a concurrency limit and learns from samples. It is not
// safe for concurrent use.
type Algorithm interface {
	// Limit returns the units that may be in flight now, >= 0.
	Limit() int
	// Observe learns from a sample, in the order of their ends, and returns
	// why the limit moved; Kept if it did not.
	Observe(Sample) Cause
}

// Sparse is implemented by an Algorithm for which, where there are thousands
// of samples a second, a part of them is enough, chosen whatever they say.
type Sparse interface{ Sparse() bool }

// Clocked is implemented by an Algorithm that does some things at instants of
// the wall clock, at the same time as others like it.
type Clocked interface {
	// SetEpoch tells what the wall clock, since the Unix epoch, showed at the
	// instant zero of the samples. It is called before the first Observe.
	SetEpoch(time.Duration)
}

// Timed is implemented by an Algorithm whose limit also changes at an instant,
// whether or not a sample comes.
type Timed interface {
	// Deadline returns the instant at which Expire is to be called; false if
	// there is none.
	Deadline() (at time.Duration, ok bool)
	// Expire tells what time it is. It returns why the limit moved; Kept if it
	// did not.
	Expire(now time.Duration) Cause
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
	Floor                   // it was brought up to its least
	Ceiling                 // it was brought down to its most
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

// judge folds outcomes into what they say about load: work that TimedOut or was
// Late is Dropped, work that was Left is Ignored, as is an outcome that nobody
// knows. Every Algorithm sees outcomes through it.
func judge(o weir.Outcome) weir.Outcome {
	switch o {
	case weir.Success:
		return weir.Success
	case weir.Dropped, outcome.TimedOut, outcome.Late:
		return weir.Dropped
	default:
		return weir.Ignored
	}
}

// Fixed is a limit that never moves. Zero admits nothing; a negative Fixed is
// taken as zero.
type Fixed int

// Limit returns the fixed limit.
func (f Fixed) Limit() int { return max(int(f), 0) }

// Observe learns nothing.
func (f Fixed) Observe(Sample) Cause { return Kept }

// Sparse reports that no sample is needed.
func (f Fixed) Sparse() bool { return true }
