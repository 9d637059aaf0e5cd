package outgoing

import (
	"errors"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/throttle"
)

// Stats is what a client has done since it was made, and its state.
type Stats struct {
	Waiting int // requests that wait because the server wants it

	Sent      uint64 // requests that went out, retries included
	Waited    uint64 // of those, such as had to wait because the server wanted it
	Rejected  uint64 // refused since that wait would have been, or was, too long, or too many waited
	Throttled uint64 // refused by the adaptive throttle
	Limited   uint64 // refused by the limiter
	Cancelled uint64 // not sent, since the caller left, or the limiter failed

	Outcomes map[weir.Outcome]uint64 // of those that have ended

	Throttle *throttle.Stats      // nil without
	Budget   *throttle.RetryStats // of retries; nil without
	Limiter  *inflight.Stats      // the state of the limit, if it is one on work in flight
}

// Counts are what Stats is read from. The zero value is ready to use, by several
// goroutines at once.
type Counts struct {
	sent, waited, cancelled atomic.Uint64
	refused                 [Limit + 1]atomic.Uint64
	outcomes                [outcome.Count]atomic.Uint64
}

// A Refuser keeps requests back.
type Refuser uint8

const (
	Pace     Refuser = iota // what the server has asked for
	Throttle                // the adaptive throttle
	Limit                   // the limiter
)

// Sent counts a request that goes out.
func (c *Counts) Sent(waited bool) {
	c.sent.Add(1)
	if waited {
		c.waited.Add(1)
	}
}

// Refused counts a request that does not.
func (c *Counts) Refused(by Refuser, err error) {
	if errors.Is(err, weir.ErrRejected) {
		c.refused[by].Add(1)
	} else {
		c.cancelled.Add(1)
	}
}

// Ended counts the end of a request that went out.
func (c *Counts) Ended(o weir.Outcome) { c.outcomes[o].Add(1) }

// Stats returns the counts. They are read one after the other.
func (c *Counts) Stats() Stats {
	s := Stats{Sent: c.sent.Load(), Waited: c.waited.Load(), Cancelled: c.cancelled.Load(),
		Rejected: c.refused[Pace].Load(), Throttled: c.refused[Throttle].Load(), Limited: c.refused[Limit].Load(),
		Outcomes: map[weir.Outcome]uint64{}}
	for o := range c.outcomes {
		if n := c.outcomes[o].Load(); n > 0 {
			s.Outcomes[weir.Outcome(o)] = n
		}
	}
	return s
}
