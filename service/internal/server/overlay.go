package server

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// overlays are the states of effective rules, where all rules that match a key overlay each other
// (config.Rules.Merge). All keys of a period share one state, which is made when the rules are
// loaded. The limit is passed to each call.
type overlays struct {
	server *Server
	states []*state                                 // by Rule.Index
	known  [rules.MaxEffective]atomic.Pointer[rule] // by Rule.Number
}

// compileOverlays makes the states for next, or takes those of old.
func (s *Server) compileOverlays(next, old *version) error {
	o := &overlays{server: s}
	base := next.Config.Rules[0]
	memory := max(s.cfg.Memory/max(len(next.Periods)+s.ownTables(), 1), quota.MinMemory)
	s.own.SetMemory(s.ownMemory(memory))
	for _, period := range next.Periods {
		st := old.stateOf(period)
		if st != nil && old.Config.Rules[0].Algorithm == base.Algorithm {
			st.buckets.SetMemory(memory)
			o.states = append(o.states, st)
			continue
		}
		b, err := quota.SharedWindows(s.clock, base.Algorithm, period, memory)
		if err != nil {
			return err
		}
		s.shareKeys(b)
		st = &state{since: s.since(), buckets: b}
		st.queue.Init(s.clock, s.room, b)
		o.states = append(o.states, st)
	}
	next.overlays = o
	return nil
}

// stateOf returns the state of the windows of a period; nil if there is none.
func (rs *version) stateOf(period time.Duration) *state {
	if rs == nil || rs.overlays == nil {
		return nil
	}
	if i, ok := slices.BinarySearch(rs.Periods, period); ok {
		return rs.overlays.states[i]
	}
	return nil
}

// at returns an effective rule with its state.
func (o *overlays) at(r *rules.Rule) *rule {
	if r.Number == rules.MaxEffective {
		return o.newRule(r)
	}
	known := &o.known[r.Number]
	if known.Load() == nil {
		known.CompareAndSwap(nil, o.newRule(r))
	}
	return known.Load()
}

func (o *overlays) newRule(r *rules.Rule) *rule {
	stored, _ := o.server.storedRule(&r.Rule, windowName(r.Rate.Period)) // windows of all periods can be stored
	share := o.server.shareOf(r.Quota)
	return &rule{Rule: r, state: o.states[r.Index], baseLimit: share.Limit(), stored: stored}
}
