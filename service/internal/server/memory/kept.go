package memory

import (
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A Name is how the buckets of a snapshot are found: those of a rule, or of its candidate.
type Name struct {
	Rule      string
	Candidate bool
}

// Kept are buckets that outlive the process.
type Kept struct {
	Name
	State   *State
	Buckets quota.Buckets
	Single  *rules.Rule // if it has one bucket
	Debt    int         // tokens that a bucket may owe after a handover
}

// Kept returns all buckets but those of Counts.Own.
func (v *Version) Kept() (all []Kept) {
	for i, st := range v.overlays {
		all = append(all, Kept{Name: Name{WindowName(v.Periods[i]), false}, State: st, Buckets: st.Buckets})
	}
	for unit, st := range v.overrides {
		all = append(all, Kept{Name: Name{overrideName(unit), false}, State: st, Buckets: st.Buckets})
	}
	for i := range v.rules {
		r := &v.rules[i]
		k := Kept{Name: Name{r.Name, false}, State: r.State, Buckets: r.Buckets, Debt: counts.MaxDebt(r.Rule)}
		if r.Per == config.PerRule {
			k.Single = r.Rule
		}
		if r.Buckets != nil {
			all = append(all, k)
		}
		if r.Candidate != nil {
			k.Candidate, k.Buckets = true, r.Candidate
			all = append(all, k)
		}
	}
	return all
}

// Fresh returns the buckets that the rules which are coming into force do not continue.
func (v *Version) Fresh() []Kept {
	had := map[*State]bool{}
	for st := range v.before.States {
		had[st] = true
	}
	return slices.DeleteFunc(v.Kept(), func(k Kept) bool { return had[k.State] })
}

// WindowName returns the name for the windows of a period, where rules overlay each other. It is not ASCII, unlike
// the names of rules.
func WindowName(period time.Duration) string { return "«windows of " + period.String() + "»" }

// Stats are the memory for counts.
type Stats struct {
	Bytes, Most int
	Forgotten   uint64 // counts that were dropped because memory was full
}

func (s *Stats) add(b quota.Buckets) {
	bytes, most, dropped := b.Memory()
	s.Bytes, s.Most, s.Forgotten = s.Bytes+bytes, s.Most+most, s.Forgotten+dropped
}

// Stats returns the memory of each of some rules, with their candidates; what rules share belongs to the first one. Own is
// that of quotas that requests bring.
func (v *Version) Stats(some []*rules.Rule) (of []Stats, own Stats) {
	own.Bytes, own.Most, own.Forgotten = v.counts.own.Memory()
	for _, o := range v.overrides {
		own.add(o.Buckets)
	}
	of = make([]Stats, len(some))
	seen := map[*State]bool{}
	for i, r := range v.list(some) {
		if r.Buckets != nil && !seen[r.State] {
			of[i].add(r.Buckets)
			seen[r.State] = true
		}
		if r.Candidate != nil {
			dropped := of[i].Forgotten
			of[i].add(r.Candidate)
			of[i].Forgotten = dropped
		}
	}
	return of, own
}
