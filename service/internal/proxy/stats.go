package proxy

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/internal/proxy/condition"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// Stats holds the state of a Proxy and its counts since New, of all classes together.
type Stats struct {
	inflight.Stats       // without Changes and Patience
	Mode           Limit // of the class default, as set
	Abandoned      int   // requests that the client has left, or that went to another origin; part of Inflight, unless long-lived
	LongLived      int   // exchanges that have left the limit
	Connections    int   // of clients, accepted by Listener
	Origins        []origins.Stats
}

// Stats returns the state and the counts since New.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	forwards := p.forwarder.Stats()
	s := Stats{
		Stats: p.all.Stats().Stats, Mode: p.plan.Load().Limiters[proxyrule.DefaultClass].Settings().Limit,
		Abandoned: forwards.Abandoned, LongLived: forwards.LongLived, Connections: p.connections.Count(),
		Origins: p.origins.Stats(),
	}
	s.State = p.stateLocked()
	for _, l := range p.plan.Load().Limiters {
		l.AddOriginLimits(s.Origins)
	}
	return s
}

// stateLocked adds up the states of all limiters. A request that waits for the total holds
// a unit of its class, but is not in flight.
func (p *Proxy) stateLocked() (all inflight.State) {
	pl := p.plan.Load()
	for name, l := range pl.Limiters {
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
		if l.Name != proxyrule.TotalName {
			all.Inflight += st.Inflight
		}
	}
	all.Inflight = max(all.Inflight, 0) // they are read one after the other
	if pl.Total != nil {
		all.Limit = min(all.Limit, pl.Total.State().Limit)
	}
	return all
}

// snapshot returns what the condition follows from.
func (p *Proxy) snapshot() condition.Snapshot {
	st := p.Stats()
	s := condition.Snapshot{
		Limit: st.Limit, Inflight: st.Inflight, Waiting: st.Waiting, LongLived: st.LongLived,
		Admitted: st.Admitted, Signs: p.forwarder.Stats().Signs, Spared: p.all.Stats().Refused[tally.Pressure], Out: origins.Out(st.Origins), Origins: len(st.Origins),
	}
	for _, why := range []weir.Reason{weir.OverLimit, weir.QueueFull, weir.Overdue, weir.TooLate} {
		s.Rejected += st.Rejected[why]
	}
	if limiters := p.plan.Load().Limiters; len(limiters) > 1 {
		s.Limits = make(map[condition.Limit]uint64, len(limiters))
		for _, l := range limiters {
			s.Limits[condition.Limit{Name: l.Name, ID: l}] = l.CountRejected()
		}
	}
	return s
}

// Status returns the current Status, at most a second old.
func (p *Proxy) Status() condition.Status {
	s := p.watch.Status()
	s.Ready = !p.draining.Load()
	return s
}

// Watch logs changes of the condition until ctx ends, and notes them in the Box.
func (p *Proxy) Watch(ctx context.Context) { p.watch.Run(ctx, p.cfg.Box.Note) }
