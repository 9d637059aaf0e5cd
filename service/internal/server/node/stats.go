package node

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/topk"
	"github.com/weir-go/weir/service/internal/server/decider"
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

	Waiting int           // requests, now
	Waits   waiting.Times // of requests that waited and were allowed
}

// Stats is the state of a Node.
type Stats struct {
	// UnmatchedAllowed and UnmatchedDenied are the requests that no rule matched, but for
	// UnmatchedOverOwn, which a quota of their own denied.
	UnmatchedAllowed, UnmatchedDenied uint64
	UnmatchedOverOwn                  uint64
	Reloads                           uint64    // rules put into force, the first included
	Loaded                            time.Time // when the present rules were
}

// Stats returns the state, and the counts.
func (n *Node) Stats() Stats {
	set := n.Set()
	return Stats{
		Reloads: set.ID, Loaded: set.Loaded,
		UnmatchedDenied: n.unmatchedDenied.Load(), UnmatchedAllowed: n.unmatchedAllowed.Load(), UnmatchedOverOwn: n.unmatchedOverOwn.Load(),
	}
}

// StatsOf returns the state of a rule, and the counts.
func StatsOf(r *rules.Rule) RuleStats {
	c := r.Tally
	return RuleStats{
		Rule: r, Allowed: c.Allowed.Sum(), Denied: c.Denied.Load(), Cancelled: c.Waits.Cancelled.Load(),
		Shadowed: c.Shadowed.Load(), TrialDenied: c.TrialDenied.Load(), TrialAllowed: c.TrialAllowed.Load(),
		Waiting: int(c.Waits.Waiting.Load()), Waits: c.Waits.Times.Load(),
	}
}

// Top returns the keys with the most requests: see decider.Decider. It can return the error of ctx.
func (n *Node) Top(ctx context.Context, most int) ([]decider.Seen, error) {
	var all []decider.Seen
	refused := n.refusedLeases.counts()
	for e := range n.keys.All {
		if err := ctx.Err(); err != nil { // after a reload, seen matches each key against each regex
			return nil, err
		}
		k := n.seen(e)
		k.LeasesRefused = refused[e.Key()]
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b decider.Seen) int {
		return cmp.Or(cmp.Compare(b.Requests(), a.Requests()), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(max(most, 0), len(all))], nil
}

func (n *Node) seen(e *rules.Known) decider.Seen {
	m := e.Match(n.Set())
	k := decider.Seen{Key: e.Key()}
	k.Allowed, k.Denied = e.Requests()
	for _, r := range m.Rated {
		k.Waiting += n.counts.Waiting(m.Set, r, e.Key())
	}
	for _, r := range m.List {
		k.Rules = append(k.Rules, r.Ref)
	}
	return k
}

// leaseRefusals counts the refused leases of the keys that are refused most, in memory that
// does not grow: of each of its parts, the keys that are more than one in topk.Counters.
// Refusals by rates are in knownKey, which is full: a cache line.
type leaseRefusals struct {
	parts [64]struct {
		mu     sync.Mutex // guards sketch
		sketch topk.Sketch[string]
	}
}

// count counts the outcome of a request for a lease, if it is a rejection and the key is
// remembered.
func (r *leaseRefusals) count(k rules.Found, err error) {
	if _, rejected := err.(*weir.Rejection); !rejected || k.Known == nil {
		return
	}
	part := &r.parts[k.Print%uint64(len(r.parts))]
	part.mu.Lock()
	defer part.mu.Unlock()
	part.sketch.Add(k.Print, k.Known.Key())
}

// counts returns a lower bound of the refusals by key.
func (r *leaseRefusals) counts() map[string]uint64 {
	var all []topk.Count[string]
	for i := range r.parts {
		part := &r.parts[i]
		part.mu.Lock()
		all = part.sketch.AppendTo(all)
		part.mu.Unlock()
	}
	counts := make(map[string]uint64, len(all))
	for _, c := range all {
		counts[c.Key] = c.Count - c.Over
	}
	return counts
}
