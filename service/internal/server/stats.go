package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// RuleStats is the state of a rule, and the outcomes of requests since the rule
// was loaded.
type RuleStats struct {
	Rule *rules.Rule

	Allowed   uint64
	Denied    map[weir.Reason]uint64
	Cancelled uint64 // requests that left the queue or ran out of time
	Shadowed  uint64 // requests that would have been denied but for the mode
	// TrialAllowed and TrialDenied count what the candidate would have decided. It
	// also settles requests that it denied, so it seems too generous where many costs
	// are returned.
	TrialAllowed, TrialDenied uint64

	Waiting   int           // requests, now
	Waits     waiting.Times // of requests that waited and were allowed
	Memory    int           // bytes for counts, with the candidate's; shared ones belong to the first rule that has them
	MemoryMax int           // the bound on Memory
	Forgotten uint64        // counts that were dropped because memory was full

	Leases lease.Stats
}

// Stats is the state of a Server.
type Stats struct {
	Rules []RuleStats
	// UnmatchedAllowed and UnmatchedDenied are the requests that no rule matched, but for
	// UnmatchedOverOwn, which a quota of their own denied.
	UnmatchedAllowed, UnmatchedDenied uint64
	UnmatchedOverOwn                  uint64
	// OwnMemory is the memory for the quotas that requests bring, OwnMemoryMax the bound
	// on it, and OwnForgotten the number of counts that were dropped because it was full.
	OwnMemory, OwnMemoryMax int
	OwnForgotten            uint64
	Leases                  int    // held, of all rules
	LeasesRefused           uint64 // because Config.MaxLeases are held
	Leaves                  LeafStats
	Waiting                 int           // requests, of all rules
	WaitingRefused          uint64        // because Config.MaxWaiting requests wait
	GrantLife               time.Duration // how long grants can be settled: decider.GrantLife, or less under too many
	Reloads                 uint64        // rules put into force, the first included
	Loaded                  time.Time     // when the present rules were
}

// LeafStats is the state of the leaves that have assignments, and the counts of what they
// have sent.
type LeafStats struct {
	Leaves      int    // present
	Assignments int    // of keys, of all leaves
	Buckets     int    // buckets that leaves share
	Exchanges   uint64 // received
	Reports     uint64 // in them
	Refused     uint64 // reports without an assignment, and exchanges of leaves beyond the bound

	TenantRefused uint64 // of Refused, those of leaves with a token for some keys
}

// Stats returns the state, and the counts.
func (s *Server) Stats() Stats {
	rs := s.rules.Load()
	st := Stats{
		Reloads: rs.ID, Loaded: rs.Loaded, GrantLife: s.grants.Life(s.clock.Now()),
		UnmatchedDenied: s.unmatchedDenied.Load(), UnmatchedAllowed: s.unmatchedAllowed.Load(),
	}
	st.UnmatchedOverOwn = s.unmatchedOverOwn.Load()
	st.OwnMemory, st.OwnMemoryMax, st.OwnForgotten = s.own.Memory()
	for _, o := range rs.overrides {
		bytes, most, dropped := o.buckets.Memory()
		st.OwnMemory, st.OwnMemoryMax, st.OwnForgotten = st.OwnMemory+bytes, st.OwnMemoryMax+most, st.OwnForgotten+dropped
	}
	st.Leases, st.LeasesRefused = s.leases.Count()
	st.Leaves = s.leaves.stats()
	st.Waiting, st.WaitingRefused = s.room.Len(), s.room.Refused()
	seen := map[*state]bool{}
	for _, known := range rs.Known() {
		r := rs.at(known)
		one := r.stats()
		one.Leases = s.leases.Stats(rs.Set, known)
		if r.buckets != nil && !seen[r.state] {
			one.Memory, one.MemoryMax, one.Forgotten = r.buckets.Memory()
			seen[r.state] = true
		}
		if r.candidate != nil {
			bytes, most, _ := r.candidate.Memory()
			one.Memory, one.MemoryMax = one.Memory+bytes, one.MemoryMax+most
		}
		st.Rules = append(st.Rules, one)
	}
	return st
}

func (r *rule) stats() RuleStats {
	c := r.Tally
	return RuleStats{
		Rule: r.Rule, Allowed: c.Allowed.Sum(), Denied: c.Denied.Load(), Cancelled: c.Waits.Cancelled.Load(),
		Shadowed: c.Shadowed.Load(), TrialDenied: c.TrialDenied.Load(), TrialAllowed: c.TrialAllowed.Load(),
		Waiting: int(c.Waits.Waiting.Load()), Waits: c.Waits.Times.Load(),
	}
}

// Top returns the keys with the most requests: see decider.Decider. The error is
// nil.
func (s *Server) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	var all []decider.Seen
	refused := s.refusedLeases.counts()
	for e := range s.keys.All {
		if err := ctx.Err(); err != nil { // after a reload, seen matches each key against each regex
			return nil, err
		}
		k := s.seen(e)
		k.LeasesRefused = refused[e.Key()]
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b decider.Seen) int {
		return cmp.Or(cmp.Compare(b.Requests(), a.Requests()), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(max(n, 0), len(all))], nil
}

func (s *Server) seen(e *rules.Known) decider.Seen {
	k := decider.Seen{Key: e.Key()}
	k.Allowed, k.Denied = e.Requests()
	rs := s.rules.Load()
	for _, r := range e.Rules(rs.Set) {
		k.Rules = append(k.Rules, r.Ref)
		k.Waiting += rs.at(r).queue.Len(r.Bucket(k.Key))
	}
	return k
}
