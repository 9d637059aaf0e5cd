package proxy

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// Stats holds the state of a Proxy and its counts since New, of all classes together.
type Stats struct {
	inflight.Stats       // without Changes and Patience
	Mode           Limit // of the class default, as set
	Abandoned      int   // requests whose client has left, or that went to another origin; part of Inflight, unless long-lived
	LongLived      int   // exchanges that have left the limit
	Connections    int   // of clients, accepted by Listener
	Origins        []OriginStats
}

// Stats returns the state and the counts since New.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Stats: p.all.stats(), Mode: p.plan.Load().limiters[proxyrule.DefaultClass].now.limit,
		Abandoned: int(p.abandoned.Load()), LongLived: p.longLived(), Connections: int(p.connections.Load()),
		Origins: p.origins.stats(),
	}
	s.State = p.stateLocked()
	for _, l := range p.plan.Load().limiters {
		if l.each() {
			for i, at := range l.at {
				s.Origins[i].Limit += int(at.size.Load())
				s.Origins[i].MinLimit += max(l.now.auto.Min, 1)
			}
		}
	}
	return s
}

// stateLocked adds up the states of all limiters. A request that waits for the total holds
// a unit of its class, but is not in flight.
func (p *Proxy) stateLocked() (all inflight.State) {
	pl := p.plan.Load()
	for name, l := range pl.limiters {
		st := l.State()
		if name == proxyrule.TotalName {
			all.Waiting += st.Waiting
			all.Inflight -= st.Waiting
			continue
		}
		all.Limit += st.Limit
		all.Waiting += st.Waiting
		all.Inflight += st.Inflight
	}
	for _, l := range p.retired {
		st := l.State()
		all.Waiting += st.Waiting
		if l.name != proxyrule.TotalName {
			all.Inflight += st.Inflight
		}
	}
	all.Inflight = max(all.Inflight, 0) // they are read one after the other
	if pl.total != nil {
		all.Limit = min(all.Limit, pl.total.State().Limit)
	}
	return all
}

// stats returns the counts. The state is not known here.
func (c *counts) stats() inflight.Stats {
	s := inflight.Stats{
		Admitted: c.admitted.Load(), Cancelled: c.cancelled.Load(), Waited: time.Duration(c.waited.Load()),
		Wasted: c.wasted.Load(), Rejected: map[weir.Reason]uint64{}, Outcomes: map[weir.Outcome]uint64{},
	}
	for i := range c.waits {
		s.Waits[i] = c.waits[i].Load()
	}
	for _, why := range []weir.Reason{weir.OverLimit, weir.QueueFull, weir.Overdue, weir.TooLate, weir.Closed} {
		s.Rejected[why] = c.rejected[why].Load()
	}
	for o := range c.outcomes {
		s.Outcomes[weir.Outcome(o)] = c.outcomes[o].Load()
	}
	return s
}
