package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Change is the difference between two Rules: names of rules, in the order of the
// new Rules; Removed in that of the old.
type Change struct {
	Added, Removed, Changed, Same []string

	details []string // one for each of Changed
	beside  []string // of other fields
}

// Diff returns the change from old to new. Both are complete. A default that is
// written out is no change.
func Diff(old, new *Rules) (c Change) {
	was := map[string]*Rule{}
	for i := range old.Rules {
		was[old.Rules[i].Name] = &old.Rules[i]
	}
	var both []string
	for i := range new.Rules {
		rule := &new.Rules[i]
		before, ok := was[rule.Name]
		if !ok {
			c.Added = append(c.Added, rule.Name)
			continue
		}
		delete(was, rule.Name)
		both = append(both, rule.Name)
		describe := aspects
		if old.Merge && new.Merge && i > 0 {
			describe = parts
		}
		if what := differences(describe(before), describe(rule)); what == "" {
			c.Same = append(c.Same, rule.Name)
		} else {
			c.Changed = append(c.Changed, rule.Name)
			c.details = append(c.details, what)
		}
	}
	var stayed []string
	for i := range old.Rules {
		if name := old.Rules[i].Name; was[name] != nil {
			c.Removed = append(c.Removed, name)
		} else {
			stayed = append(stayed, name)
		}
	}
	if !slices.Equal(both, stayed) {
		c.beside = append(c.beside, "in another order")
	}
	for _, field := range [][3]string{
		{"apply", string(cmp.Or(old.Apply, First)), string(cmp.Or(new.Apply, First))},
		{"unmatched", cmp.Or(old.Unmatched, "allow"), cmp.Or(new.Unmatched, "allow")},
		{"merge", strconv.FormatBool(old.Merge), strconv.FormatBool(new.Merge)},
	} {
		if field[1] != field[2] {
			c.beside = append(c.beside, fmt.Sprintf("%s %s → %s", field[0], field[1], field[2]))
		}
	}
	return c
}

// maxDetails bounds the rules that String describes, and the details of each.
const maxDetails = 3

// String returns the change in one line of bounded length, such as
//
//	2 added, 1 changed (logins: rate 5/m → 10/m), 40 as before
func (c Change) String() string {
	var all []string
	add := func(names []string, what string) {
		if len(names) > 0 {
			all = append(all, strconv.Itoa(len(names))+" "+what)
		}
	}
	add(c.Added, "added")
	add(c.Removed, "removed")
	if n := len(c.Changed); n > 0 {
		var told []string
		for i := range min(n, maxDetails) {
			told = append(told, c.Changed[i]+": "+c.details[i])
		}
		if n > maxDetails {
			told = append(told, "...")
		}
		add(c.Changed, "changed ("+strings.Join(told, "; ")+")")
	}
	add(c.Same, "as before")
	all = append(all, c.beside...)
	if len(all) == 0 {
		return "no rules"
	}
	return strings.Join(all, ", ")
}

// An aspect is one property of a rule, as text.
type aspect struct{ name, is string }

// differences describes the differences; empty if there are none.
func differences(old, new []aspect) string {
	var told []string
	for i, a := range new {
		if b := old[i].is; a.is != b {
			told = append(told, fmt.Sprintf("%s %s → %s", a.name, cmp.Or(short(b), "none"), cmp.Or(short(a.is), "none")))
		}
	}
	if len(told) > maxDetails {
		told = append(told[:maxDetails], "...")
	}
	return strings.Join(told, ", ")
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
		{"queue", number(r.Queue, DefaultQueue)},
		{"max_wait", r.MaxWait.String()},
		{"max_debt", debt},
		{"mode", string(cmp.Or(r.Mode, Enforce))},
	}
	candidate := Quota{}
	if r.Candidate != nil {
		candidate = *r.Candidate
	}
	return slices.Concat(r.Quota.aspects(""), all, r.Concurrency.aspects(), candidate.aspects("candidate "))
}

// parts returns the aspects of a rule that overlays others.
func parts(r *Rule) []aspect {
	set := func(n int, text string) string {
		if n == 0 {
			return ""
		}
		return text
	}
	queue := ""
	if r.Queue != nil {
		queue = strconv.Itoa(*r.Queue)
	}
	return []aspect{
		patternAspect(r),
		{"count", set(r.Rate.Count, strconv.Itoa(r.Rate.Count))},
		{"period", set(int(r.Rate.Period), r.Rate.Period.String())},
		{"queue", queue},
	}
}

func patternAspect(r *Rule) aspect {
	field, text := r.pattern()
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
	}
}

func (l *Concurrency) aspects() []aspect {
	if l == nil {
		l = &Concurrency{Limit: -1}
	}
	limit := l.Limit.String()
	switch l.Limit {
	case -1:
		limit = ""
	case Auto:
		limit = fmt.Sprintf("auto from %d to %d", cmp.Or(l.Min, 1), cmp.Or(l.Max, 1000))
	}
	ttl := cmp.Or(l.TTL, DefaultTTL)
	return []aspect{
		{"concurrency", limit},
		{"concurrency queue", number(l.Queue, DefaultQueue)},
		{"concurrency max_wait", l.MaxWait.String()},
		{"ttl", ttl.String()},
		{"max_ttl", cmp.Or(l.MaxTTL, 10*ttl).String()},
	}
}

func number(n *int, otherwise int) string {
	if n == nil {
		n = &otherwise
	}
	return strconv.Itoa(*n)
}
