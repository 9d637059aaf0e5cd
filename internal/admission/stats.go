package admission

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/wrapped"
)

type ruleCounts struct{ allowed, denied, shadowed, failed atomic.Uint64 }

// Stats holds the counts of a Door since New. httplimit.Stats and grpclimit.Stats
// document the fields; the element types are the same there.
type Stats struct {
	Exempt uint64
	Rules  []struct {
		Name     string
		Allowed  uint64
		Denied   uint64
		Shadowed uint64
		Failed   uint64
	}
	Classes []struct {
		Class    string
		Admitted uint64
		Refused  map[weir.Reason]uint64
		Shadowed map[weir.Reason]uint64
		Outcomes map[weir.Outcome]uint64
		Wasted   uint64
		Limiter  *inflight.Stats
	}
}

// Stats returns the counts. They are read one after the other.
func (d *Door[R]) Stats() Stats {
	s := Stats{Exempt: d.exempted.Load()}
	s.Rules = slices.Grow(s.Rules, len(d.rules))[:len(d.rules)]
	for i := range d.rules {
		c, r := &d.rules[i], &s.Rules[i]
		r.Name = d.cfg.Rules[i].Name
		r.Allowed, r.Denied, r.Shadowed, r.Failed = c.allowed.Load(), c.denied.Load(), c.shadowed.Load(), c.failed.Load()
	}
	known := d.classes.known.Load()
	if known == nil {
		return s
	}
	names := make([]*class, 0, len(*known))
	for _, c := range *known {
		names = append(names, c)
	}
	slices.SortFunc(names, func(a, b *class) int { return cmp.Compare(a.name, b.name) })
	s.Classes = slices.Grow(s.Classes, len(names))[:len(names)]
	for i, c := range names {
		one := &s.Classes[i]
		one.Class, one.Admitted = c.name, c.admitted.Load()
		one.Refused, one.Shadowed = counts[weir.Reason](c.refused[:]), counts[weir.Reason](c.shadowed[:])
		one.Outcomes = counts[weir.Outcome](c.outcomes[:])
		for o, n := range one.Outcomes {
			if outcome.Wasted(o) {
				one.Wasted += n
			}
		}
		if l, ok := wrapped.Innermost(c.limiter()).(interface{ Stats() inflight.Stats }); ok {
			limiter := l.Stats()
			one.Limiter = &limiter
		}
	}
	return s
}

// counts returns the counters that are not zero, by index.
func counts[K ~uint8](counters []atomic.Uint64) map[K]uint64 {
	m := map[K]uint64{}
	for i := range counters {
		if n := counters[i].Load(); n > 0 {
			m[K(i)] = n
		}
	}
	return m
}
