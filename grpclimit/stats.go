package grpclimit

import (
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/internal/wrapped"
	"github.com/weir-go/weir/throttle"
)

// Stats holds the counts of an Interceptor since New.
type Stats struct {
	Exempt uint64 // calls admitted without a decision

	// Rules counts the decisions of each rule, in the order of Config.Rules.
	Rules []struct {
		Name     string
		Allowed  uint64 // on arrival or after a wait
		Denied   uint64
		Shadowed uint64 // calls that the rule would have denied without Shadow
		Failed   uint64 // calls admitted because the limiter has failed
	}

	// Classes counts the calls of each class, by name. Every decided call is in
	// exactly one of Admitted and Refused.
	Classes []struct {
		Class    string
		Admitted uint64
		Refused  map[weir.Reason]uint64  // by a rule or the limit; 0: another error, such as a caller that left the queue
		Shadowed map[weir.Reason]uint64  // admitted calls that the limit would have refused without Shadow
		Outcomes map[weir.Outcome]uint64 // of the calls that have ended
		Wasted   uint64                  // of these, the ones that ended after their caller had left, or their deadline
		Limiter  *inflight.Stats         // nil unless the limit is an inflight.Limiter
	}
}

// Stats returns the counts. They are read one after the other.
func (i *Interceptor) Stats() Stats { return Stats(i.door.Stats()) }

// ClientStats holds the state of a Client, and its counts since NewClient.
type ClientStats struct {
	Waiting int // calls that wait because the server asked for it

	Sent      uint64 // calls sent, retries included
	Waited    uint64 // calls sent after a wait that the server asked for
	Rejected  uint64 // calls refused because that wait or its queue was too long
	Throttled uint64 // calls refused by the adaptive throttle
	Limited   uint64 // calls refused by the limiter
	Cancelled uint64 // calls not sent because the caller left, or the limiter failed

	Outcomes map[weir.Outcome]uint64 // of the calls that have ended

	Throttle *throttle.Stats      // nil without a throttle
	Budget   *throttle.RetryStats // of retries; nil without retries
	Limiter  *inflight.Stats      // nil unless the limiter is an inflight.Limiter
}

// clientCounts are the counts of ClientStats. They are safe for concurrent use.
type clientCounts struct {
	sent, waited, cancelled atomic.Uint64
	refused                 [outgoing.Refusers]atomic.Uint64
	outcomes                [outcome.Count]atomic.Uint64
}

// Stats returns the state and the counts. They are read one after the other.
func (c *Client) Stats() ClientStats {
	n := &c.counts
	s := ClientStats{
		Sent:      n.sent.Load(),
		Waited:    n.waited.Load(),
		Rejected:  n.refused[outgoing.ByQueue].Load(),
		Throttled: n.refused[outgoing.ByThrottle].Load(),
		Limited:   n.refused[outgoing.ByLimiter].Load(),
		Cancelled: n.cancelled.Load(),
		Outcomes:  map[weir.Outcome]uint64{},
	}
	for o := range n.outcomes {
		if n := n.outcomes[o].Load(); n > 0 {
			s.Outcomes[weir.Outcome(o)] = n
		}
	}
	c.mu.RLock()
	for _, q := range c.queues {
		s.Waiting += q.Waiting()
	}
	c.mu.RUnlock()
	if c.throttle != nil {
		t := c.throttle.Stats()
		s.Throttle = &t
	}
	if c.retrier != nil {
		b := c.retrier.Stats()
		s.Budget = &b
	}
	if l, ok := wrapped.Innermost(c.cfg.Limiter).(interface{ Stats() inflight.Stats }); ok {
		g := l.Stats()
		s.Limiter = &g
	}
	return s
}
