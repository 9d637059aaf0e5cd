package node

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// unmatched decides about a key that no rule matches.
func (n *Node) unmatched(a *counts.Ask, final bool) {
	if a.Set.Config.Unmatched == "deny" {
		n.DenyUnmatched(1)
		a.V.Deny(weir.OverRate, weir.Never)
		return
	}
	if final {
		n.unmatchedAllowed.Add(1)
	}
	if a.V.OK = true; a.Req.N > 0 {
		a.V.Grant = decider.Grant{N: a.Req.N, At: a.V.At}
	}
}

// DenyUnmatched counts requests that were denied because no rule matches their keys.
func (n *Node) DenyUnmatched(requests uint64) { n.unmatchedDenied.Add(requests) }

// count counts a request that was allowed, unless its cost is zero.
func (n *Node) count(a *counts.Ask) {
	cost, fresh := a.Req.N, false // fresh: it is the first to use tokens
	if cost == 0 {
		return
	}
	if a.Req.Quota != nil {
		n.countRules(a)
		a.Known.Count(true, a.V.Answers[0].Remaining == a.Req.Quota.Limit()-cost)
		return
	}
	for i, j := 0, 0; i < len(a.V.Answers); i, j = i+1, j+1 {
		j = counts.RuleOf(&a.V.Answers[i], a.Rated, j)
		r := a.Rated[j]
		if i == 0 {
			fresh = a.V.Answers[0].Remaining == r.Within(r.OwnLimit(n.cfg.Limit(a.Req)))-cost
		}
		r.Tally.Allowed.Add(a.Print)
	}
	a.Known.Count(true, fresh)
}

// countRules counts an allowed request under all rules of the key.
func (n *Node) countRules(a *counts.Ask) {
	if len(a.List) == 0 {
		n.unmatchedAllowed.Add(1)
	}
	for _, r := range a.Rated {
		r.Tally.Allowed.Add(a.Print)
	}
}

// countWhole counts a request that another node has allowed.
func (n *Node) countWhole(a *counts.Ask) {
	if a.Req.N > 0 {
		n.countRules(a)
		a.Known.Count(true, false)
	}
}

// countWholeDenied counts a request that another node has denied.
func (n *Node) countWholeDenied(a *counts.Ask) {
	if a.Req.Quota != nil {
		n.countOwnDenied(a, a.V.Reason)
		return
	}
	a.Known.Count(false, false)
	if r := a.Denying(a.V); r != nil {
		r.Tally.Denied.Add(a.V.Reason)
	}
}

// countOwnDenied counts a request that its own quota denied.
func (n *Node) countOwnDenied(a *counts.Ask, why weir.Reason) {
	if len(a.List) == 0 {
		n.unmatchedOverOwn.Add(1)
	}
	for _, r := range a.Rated {
		r.Tally.Denied[why].Add(1)
	}
	a.Known.Count(false, false)
}
