package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/internal/strictyaml"
)

// maxDetails bounds the rules that Diff describes, and the details of each.
const maxDetails = 3

// Diff describes the changes from old to new in one line of bounded length, such as
//
//	2 added, 1 changed (logins: rate 5/m → 10/m), 40 as before
//
// Both are complete. A default that is written out is no change.
func Diff(old, new *Rules) string {
	removed := map[string]*Rule{}
	for i := range old.Rules {
		removed[old.Rules[i].Name] = &old.Rules[i]
	}
	var both, stayed, changed []string
	for i := range new.Rules {
		rule := &new.Rules[i]
		before, ok := removed[rule.Name]
		if !ok {
			continue
		}
		delete(removed, rule.Name)
		both = append(both, rule.Name)
		describe := aspects
		if old.Merge && new.Merge && i > 0 {
			describe = parts
		}
		if what := differences(describe(before), describe(rule)); what != "" {
			changed = append(changed, rule.Name+": "+what)
		}
	}
	for i := range old.Rules {
		if name := old.Rules[i].Name; removed[name] == nil {
			stayed = append(stayed, name)
		}
	}
	var all []string
	add := func(n int, what string) {
		if n > 0 {
			all = append(all, strconv.Itoa(n)+" "+what)
		}
	}
	add(len(new.Rules)-len(both), "added")
	add(len(removed), "removed")
	add(len(changed), "changed ("+atMost(changed, "; ")+")")
	add(len(both)-len(changed), "as before")
	if !slices.Equal(both, stayed) {
		all = append(all, "in another order")
	}
	for _, field := range [][3]string{
		{"apply", string(cmp.Or(old.Apply, First)), string(cmp.Or(new.Apply, First))},
		{"unmatched", cmp.Or(old.Unmatched, "allow"), cmp.Or(new.Unmatched, "allow")},
		{"merge", strconv.FormatBool(old.Merge), strconv.FormatBool(new.Merge)},
	} {
		if field[1] != field[2] {
			all = append(all, fmt.Sprintf("%s %s → %s", field[0], field[1], field[2]))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "no rules")
}

// atMost joins the first maxDetails texts.
func atMost(texts []string, separator string) string {
	if len(texts) > maxDetails {
		texts = append(texts[:maxDetails:maxDetails], "...")
	}
	return strings.Join(texts, separator)
}

// An aspect is one property of a rule, as text.
type aspect struct{ name, is string }

// differences describes the differences; empty if there are none.
func differences(old, new []aspect) string {
	var told []string
	for i, a := range new {
		if b := old[i].is; a.is != b {
			before, now := cmp.Or(strictyaml.Short(b), "none"), cmp.Or(strictyaml.Short(a.is), "none")
			told = append(told, fmt.Sprintf("%s %s → %s", a.name, before, now))
		}
	}
	return atMost(told, ", ")
}

// aspects returns the aspects of a rule, with defaults.
func aspects(r *Rule) []aspect {
	debt := "the burst"
	if r.MaxDebt != nil && *r.MaxDebt != cmp.Or(r.Burst, r.Rate.Count) {
		debt = strconv.Itoa(*r.MaxDebt)
	}
	all := []aspect{
		patternAspect(r),
		{"per", string(cmp.Or(r.Per, PerKey))},
		{"queue", queueOf(r.Queue)},
		{"max_wait", cmp.Or(r.MaxWait, DefaultMaxWait).String()},
		{"max_debt", debt},
		{"own_quota", strconv.FormatBool(r.OwnQuota)},
		{"memory", r.Memory.String()},
		{"mode", string(cmp.Or(r.Mode, Enforce))},
		{"away", string(r.Away)},
		{"unassigned", string(cmp.Or(r.Unassigned, UnassignedAsk))},
	}
	candidate := Quota{}
	if r.Candidate != nil {
		candidate = *r.Candidate
	}
	return slices.Concat(r.Quota.aspects(""), all, r.Concurrency.aspects(), candidate.aspects("candidate "))
}

// parts returns the aspects of a rule that overlays others.
func parts(r *Rule) []aspect {
	all := []aspect{patternAspect(r), {"count", ""}, {"period", ""}, {"queue", ""}}
	if r.Rate.Count != 0 {
		all[1].is = strconv.Itoa(r.Rate.Count)
	}
	if r.Rate.Period != 0 {
		all[2].is = r.Rate.Period.String()
	}
	if r.Queue != nil {
		all[3].is = strconv.Itoa(*r.Queue)
	}
	return all
}

func patternAspect(r *Rule) aspect {
	field, text := r.Pattern()
	return aspect{"pattern", field + " " + strconv.Quote(text)}
}

func (q Quota) aspects(prefix string) []aspect {
	burst := "the rate's count"
	if q.Burst != 0 && q.Burst != q.Rate.Count {
		burst = strconv.Itoa(q.Burst)
	}
	return []aspect{
		{prefix + "rate", q.Rate.String()},
		{prefix + "burst", burst},
		{prefix + "algorithm", string(cmp.Or(q.Algorithm, GCRA))},
		{prefix + "zone", q.ZoneName()},
	}
}

func (l *Concurrency) aspects() []aspect {
	limit := ""
	switch {
	case l == nil:
		l = &Concurrency{}
	case l.Limit == Auto:
		limit = fmt.Sprintf("auto from %d to %d", cmp.Or(l.Min, 1), cmp.Or(l.Max, 1000))
	default:
		limit = l.Limit.String()
	}
	ttl := cmp.Or(l.TTL, DefaultTTL)
	return []aspect{
		{"concurrency", limit},
		{"concurrency queue", queueOf(l.Queue)},
		{"concurrency max_wait", cmp.Or(l.MaxWait, DefaultMaxWait).String()},
		{"ttl", ttl.String()},
		{"max_ttl", cmp.Or(l.MaxTTL, 10*ttl).String()},
	}
}

func queueOf(n *int) string { return strconv.Itoa(*cmp.Or(n, new(DefaultQueue))) }
