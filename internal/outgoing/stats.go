package outgoing

import (
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gate"
	"github.com/weir-go/weir/throttle"
)

// Stats is what a client has done since it was made, and its state.
type Stats struct {
	Waiting int // requests that wait because the server wants it

	Sent     uint64                  // requests that went out, retries included
	Waited   uint64                  // of those, such as had to wait because the server wanted it
	Refused  map[weir.Reason]uint64  // kept back; 0: the caller left while it waited
	Outcomes map[weir.Outcome]uint64 // of those that have ended

	Throttle *throttle.AdaptiveStats // nil without
	Budget   *throttle.BudgetStats   // of retries; nil without
	Gate     *gate.Stats             // the state of the limit, if it is one on work in flight
}

// Counts are what Stats is read from. The zero value is ready to use, by several
// goroutines at once.
type Counts struct {
	sent, waited atomic.Uint64
	refused      [weir.Throttled + 1]atomic.Uint64
	outcomes     [weir.Late + 1]atomic.Uint64
}

// Sent counts a request that goes out.
func (c *Counts) Sent(p Pass) {
	c.sent.Add(1)
	if p.Waited {
		c.waited.Add(1)
	}
}

// Refused counts a request that does not; 0 is the reason of those that have
// none.
func (c *Counts) Refused(why weir.Reason) {
	if int(why) >= len(c.refused) {
		why = 0
	}
	c.refused[why].Add(1)
}

// Ended counts the end of a request that went out.
func (c *Counts) Ended(o weir.Outcome) { c.outcomes[o].Add(1) }

// Stats returns the counts. They are read one after the other.
func (c *Counts) Stats() Stats {
	s := Stats{Sent: c.sent.Load(), Waited: c.waited.Load(), Refused: map[weir.Reason]uint64{}, Outcomes: map[weir.Outcome]uint64{}}
	for why := range c.refused {
		if n := c.refused[why].Load(); n > 0 {
			s.Refused[weir.Reason(why)] = n
		}
	}
	for o := range c.outcomes {
		if n := c.outcomes[o].Load(); n > 0 {
			s.Outcomes[weir.Outcome(o)] = n
		}
	}
	return s
}
