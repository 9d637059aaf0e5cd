package server

import (
	"time"

	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/node"
)

// RuleStats is the state of a rule, and the outcomes of requests since the rule
// was loaded.
type RuleStats struct {
	node.RuleStats

	Memory    int    // bytes for counts, with the candidate's; shared ones belong to the first rule that has them
	MemoryMax int    // the bound on Memory
	Forgotten uint64 // counts that were dropped because memory was full

	Leases lease.Stats
}

// Stats is the state of a Server.
type Stats struct {
	node.Stats
	Rules []RuleStats
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
	rs := s.memory.Current()
	st := Stats{Stats: s.Node.Stats(), GrantLife: s.grants.Life(s.clock.Now()), Leaves: s.leaves.stats()}
	st.Leases, st.LeasesRefused = s.leases.Count()
	st.Waiting, st.WaitingRefused = s.room.Len(), s.room.Refused()
	known := rs.Known()
	of, own := rs.Stats(known)
	st.OwnMemory, st.OwnMemoryMax, st.OwnForgotten = own.Bytes, own.Most, own.Forgotten
	for i, r := range known {
		st.Rules = append(st.Rules, RuleStats{
			RuleStats: node.StatsOf(r), Memory: of[i].Bytes, MemoryMax: of[i].Most, Forgotten: of[i].Forgotten, Leases: s.leases.Stats(rs.Set, r),
		})
	}
	return st
}
