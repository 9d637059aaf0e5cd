package lease

import (
	"cmp"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// CountsOf returns the limits of a rule that count its leases which a store or an upstream has: those of the rule in force
// with its name.
func (g *Registry) CountsOf(set *rules.Set, r *rules.Rule) *Limits {
	if l := cmp.Or(g.Of(set, r), g.ByName()[r.Name]); l != nil {
		return l
	}
	return g.newLimits(r.Name, r.Per, r.Concurrency)
}

// Hold adds to the units held under a rule, for a lease that a store of shared limits has.
func (l *Limits) Hold(units int) { l.held.Add(int64(units)) }

// Granted counts such a lease.
func (l *Limits) Granted() { l.granted.Add(1) }

// Renewed counts a renewal of such a lease.
func (l *Limits) Renewed() { l.renewed.Add(1) }

// Returned counts the return of such a lease.
func (l *Limits) Returned() { l.returned.Add(1) }

// Refused counts a refusal of such a lease.
func (l *Limits) Refused(why weir.Reason) { l.refused.Add(why) }
