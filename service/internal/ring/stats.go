package ring

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

type counters struct {
	steps   [decider.StepsCount]atomic.Uint64
	sampled atomic.Int64 // when OnDegraded was last called

	forwarded, failed  atomic.Uint64
	claims, incomplete atomic.Uint64
	waiting            atomic.Int64 // calls of Wait, and of Acquire that wait
}

// decided counts a decision.
func (c *counters) decided(step decider.Step) {
	if step < decider.StepsCount {
		c.steps[step].Add(1)
	}
}

// Stats are the state of the fleet as a Ring sees it, and counts.
type Stats struct {
	Self    string // the name of this member; empty if it is none
	Quorum  bool   // this node sees more than half of the members
	Members []MemberStats
	// Decisions are by Step: Exact by an owner, the others by this node.
	Decisions [decider.StepsCount]uint64
	Forwarded uint64 // requests of which another member was asked
	Failed    uint64 // of these, without an answer
	// Claims counts the changes by which keys have moved to this node, and Incomplete those of
	// which a part of the state is missing.
	Claims, Incomplete uint64
}

// MemberStats are the state of a member, and counts.
type MemberStats struct {
	Member
	Status    Status
	Since     time.Duration // for how long the link has been up, or down
	Slots     int           // that it owns, of slot.Count
	Forwarded uint64        // requests that it was asked
	Failed    uint64        // of these, without an answer
}

// Stats returns the state and the counts.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.view.Load()
	st := Stats{Self: w.self, Quorum: w.quorum, Forwarded: r.counts.forwarded.Load(), Failed: r.counts.failed.Load(), Claims: r.counts.claims.Load(), Incomplete: r.counts.incomplete.Load()}
	for i := range st.Decisions {
		st.Decisions[i] = r.counts.steps[i].Load()
	}
	for _, name := range slices.Sorted(maps.Keys(w.status)) {
		p, m := r.places[name], r.census.members[name]
		if p == nil || m == nil {
			continue
		}
		st.Members = append(st.Members, MemberStats{
			Member: p.Member, Status: w.status[name], Since: r.now() - m.since, Slots: w.owned(name).Len(),
			Forwarded: p.forwarded.Load(), Failed: p.failed.Load(),
		})
	}
	return st
}

// Waiting returns how many requests wait, here or at other members, that have come to this one.
func (r *Ring) Waiting() int { return int(r.counts.waiting.Load()) }

// Quorum reports whether this node sees more than half of the members.
func (r *Ring) Quorum() bool { return r.view.Load().quorum }
