package admission

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
)

type ruleCounts struct{ allowed, denied, shadowed atomic.Uint64 }

// Stats is what a Door has done since New.
type Stats struct {
	Rules   []RuleStats  // in order
	Classes []ClassStats // by name
	Exempt  uint64       // requests let in unasked

	LongLived int // requests that go on without a unit of their limit
}

// RuleStats counts the decisions of a rule.
type RuleStats struct {
	Name     string
	Allowed  uint64 // at once, or after a wait
	Denied   uint64
	Shadowed uint64 // would have been denied, but for Shadow
}

// ClassStats counts the requests of a class. Every one that has been decided
// is in exactly one of Admitted and Refused.
type ClassStats struct {
	Class    string
	Admitted uint64
	Refused  map[weir.Reason]uint64 // by a rule or the limit; 0: for another reason, such as a caller that left while it waited
	Shadowed map[weir.Reason]uint64 // of the admitted, what the limit would have refused, but for Shadow
	Outcomes map[weir.Outcome]uint64
	Gate     *gate.Stats // the state of the limit, if it is one on work in flight
}

// Stats returns the counts. They are read one after the other.
func (d *Door[R]) Stats() Stats {
	s := Stats{Exempt: d.exempt.Load()}
	for i := range d.rules {
		c := &d.rules[i]
		s.Rules = append(s.Rules, RuleStats{d.cfg.Rules[i].Name, c.allowed.Load(), c.denied.Load(), c.shadowed.Load()})
	}
	known := d.classes.known.Load()
	if known == nil {
		return s
	}
	for _, c := range *known {
		one := ClassStats{
			Class:    c.name,
			Admitted: c.admitted.Load(),
			Refused:  map[weir.Reason]uint64{},
			Shadowed: map[weir.Reason]uint64{},
			Outcomes: map[weir.Outcome]uint64{},
		}
		for why := range reasons {
			count(one.Refused, why, &c.refused[why])
			count(one.Shadowed, why, &c.shadowed[why])
		}
		for o := range outcome.Count {
			count(one.Outcomes, o, &c.outcomes[o])
		}
		if l, ok := c.limiter().(interface{ Stats() gate.Stats }); ok {
			g := l.Stats()
			one.Gate = &g
		}
		s.Classes = append(s.Classes, one)
	}
	slices.SortFunc(s.Classes, func(a, b ClassStats) int { return cmp.Compare(a.Class, b.Class) })
	return s
}

func count[K comparable](m map[K]uint64, k K, n *atomic.Uint64) {
	if v := n.Load(); v > 0 {
		m[k] = v
	}
}
