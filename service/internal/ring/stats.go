package ring

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server/decider"
)

type counters struct {
	steps   [decider.StepsCount]atomic.Uint64
	sampled atomic.Int64 // when OnDegraded was last called

	forwarded, failed  atomic.Uint64
	took               durations
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
	// Took are the durations of forwarded requests that do not wait: Took[i] counts those longer than
	// TookBounds[i-1] and at most TookBounds[i]; the last has no upper bound. TookSum is their sum.
	Took    [len(TookBounds) + 1]uint64
	TookSum time.Duration
	// Claims counts the changes by which keys have moved to this node, and Incomplete those of
	// which a part of the state is missing.
	Claims, Incomplete uint64
}

// MemberStats are the state of a member, and counts.
type MemberStats struct {
	census.Member
	Status    census.Status
	Since     time.Duration // for how long the link has been up, or down
	Slots     int           // that it owns, of slot.Count
	Rules     string        // config.Rules.Hash of its rules in force, as it has told; empty if it has not
	Forwarded uint64        // requests that it was asked
	Failed    uint64        // of these, without an answer
	// Lists says how its list of members differs from that of this node.
	Lists census.Difference
	Link  *peer.Stats // nil for this node
}

// TookBounds are the upper bounds of Stats.Took.
var TookBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// durations is a histogram with TookBounds.
type durations struct {
	counts [len(TookBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

// measure counts the time since an instant.
func (h *durations) measure(began time.Time) {
	d := time.Since(began)
	i, _ := slices.BinarySearch(TookBounds[:], d)
	h.counts[i].Add(1)
	h.sum.Add(int64(d))
}

// Stats returns the state and the counts.
func (r *Ring) Stats() Stats {
	st := Stats{
		Forwarded: r.counts.forwarded.Load(), Failed: r.counts.failed.Load(), TookSum: time.Duration(r.counts.took.sum.Load()),
		Claims: r.counts.claims.Load(), Incomplete: r.counts.incomplete.Load(),
	}
	for i := range st.Decisions {
		st.Decisions[i] = r.counts.steps[i].Load()
	}
	for i := range st.Took {
		st.Took[i] = r.counts.took.counts[i].Load()
	}
	for i, link := range r.memberStats(&st) {
		if link != nil {
			counts := link.Stats()
			st.Members[i].Link = &counts
		}
	}
	return st
}

// memberStats adds the members to the Stats. It returns their links, nil for this node.
func (r *Ring) memberStats(st *Stats) (links []Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.view.Load()
	st.Self, st.Quorum = w.Self, w.Quorum
	slots := w.slots()
	for _, name := range slices.Sorted(maps.Keys(w.Status)) {
		p := r.places[name]
		if p == nil {
			continue
		}
		s := MemberStats{
			Member: p.Member, Status: w.Status[name], Since: r.now() - r.census.Since(name), Slots: slots[name], Rules: r.census.Rules(name),
			Forwarded: p.forwarded.Load(), Failed: p.failed.Load(),
		}
		link := p.link
		if i := slices.IndexFunc(r.differs, func(d census.Difference) bool { return d.Member == name }); i >= 0 {
			s.Lists = r.differs[i]
		}
		if name == w.Self {
			s.Rules, link = r.cfg.Local.Rules().Hash, nil
		}
		st.Members, links = append(st.Members, s), append(links, link)
	}
	return links
}

// Waiting returns how many requests wait, here or at other members, that have come to this one.
func (r *Ring) Waiting() int { return int(r.counts.waiting.Load()) }

// Ready reports whether this node has been a part of the fleet: it saw more than half of the members, all members that
// it saw could ask it, and it has the state of its keys.
func (r *Ring) Ready() bool { return r.accepted.Load() && r.claiming.Load() == 0 }
