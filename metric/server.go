package metric

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/keyed"
)

// door sends what a Middleware or an Interceptor has done.
func (c scrape) door(s admission.Stats) {
	c.count(decisions, s.Exempt, "", "exempt", "")
	c.gauge(longLived, s.LongLived)
	for _, r := range s.Rules {
		c.count(rules, r.Allowed, r.Name, "allow")
		c.count(rules, r.Denied, r.Name, "deny")
		c.count(rules, r.Shadowed, r.Name, "shadow_deny")
	}
	for _, k := range s.Classes {
		c.count(decisions, k.Admitted, k.Class, "admit", "")
		for why, n := range k.Refused {
			if why == 0 {
				c.count(decisions, n, k.Class, "cancel", "")
			} else {
				c.count(decisions, n, k.Class, "reject", why.String())
			}
		}
		for why, n := range k.Shadowed {
			c.count(shadowed, n, k.Class, why.String())
		}
		c.outcomes(k.Outcomes, k.Class)
		if k.Gate != nil {
			c.state(*k.Gate, k.Class)
		}
	}
}

func (c scrape) outcomes(of map[weir.Outcome]uint64, class string) {
	for o, n := range of {
		c.count(outcomes, n, class, o.String())
	}
}

// state sends how things stand at a limit.
func (c scrape) state(s gate.Stats, class string) {
	c.gauge(limit, s.Limit, class)
	c.gauge(inflight, s.Inflight, class)
	c.gauge(abandoned, s.Held, class)
	c.gauge(waiting, s.Waiting, class)
	c.send(waited, s.Waited.Seconds(), []string{class})
}

// gate sends what a limit on work in flight has done.
func (c scrape) gate(s gate.Stats) {
	c.state(s, "")
	c.count(decisions, s.Admitted, "", "admit", "")
	c.count(decisions, s.Cancelled, "", "cancel", "")
	for why, n := range map[weir.Reason]uint64{
		weir.OverLimit: s.OverLimit,
		weir.QueueFull: s.QueueFull + s.Evicted, // the evicted are told the same
		weir.Overdue:   s.Overdue,
		weir.TooLate:   s.TooLate,
		weir.Closed:    s.Closed,
	} {
		c.count(decisions, n, "", "reject", why.String())
	}
	c.outcomes(map[weir.Outcome]uint64{weir.Success: s.Success, weir.Dropped: s.Dropped, weir.Ignored: s.Ignored}, "")
}

func (c scrape) keyed(s keyed.Stats) {
	c.count(keyedDenied, s.Denied)
	c.count(keyedForgotten, s.Forgotten)
	c.gauge(keyedWaiting, s.Waiting)
	c.gauge(keyedMemory, s.Memory)
	c.gauge(keyedOwn, s.Own)
}
