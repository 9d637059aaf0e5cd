package rules

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/weir-go/weir/service/internal/config"
)

// MaxEffective bounds the effective rules that a Set remembers. All others have it as their
// Number.
const MaxEffective = 1000

// effective remembers the effective rules of keys, where all rules that match a key overlay each
// other (config.Rules.Merge). A key counts in the windows of the period of its effective rule. An
// effective rule is computed from immutable data: one that is not remembered is computed on
// each lookup.
type effective struct {
	mu    sync.Mutex                 // guards known
	known map[string]*effectiveMatch // by places
	rest  *Tally                     // of all that are not remembered
}

type effectiveMatch struct {
	places []int
	*Match
}

// keepEffective remembers the effective rules of the Set before, with their numbers and tallies.
func (s *Set) keepEffective(before *Set) {
	s.effective.rest = before.effective.rest
	place := map[string]int{}
	for i := range s.Config.Rules {
		place[s.Config.Rules[i].Name] = i
	}
	for _, was := range before.effectiveMatches() {
		var places []int
		for _, i := range was.places {
			if at, ok := place[before.Config.Rules[i].Name]; ok {
				places = append(places, at)
			}
		}
		if slices.Sort(places); len(places) == len(was.places) {
			s.effective.known[listKey(places)] = &effectiveMatch{places, newMatch(s, s.overlay(places, was.List[0].Number, was.List[0].Tally))}
		}
	}
}

// findEffective returns the effective rule of the keys that match exactly these rules.
func (s *Set) findEffective(places []int) *Match {
	e := &s.effective
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.known[listKey(places)]; ok {
		return known.Match
	}
	number, tally := s.freeNumber(), e.rest
	if number < MaxEffective {
		tally = new(Tally)
	}
	m := newMatch(s, s.overlay(places, number, tally))
	if number < MaxEffective {
		e.known[listKey(places)] = &effectiveMatch{places, m}
	}
	return m
}

// freeNumber returns a number for an effective rule, or MaxEffective. The lock is held.
func (s *Set) freeNumber() int {
	n := len(s.effective.known)
	if n >= MaxEffective {
		return MaxEffective
	}
	used := make(map[int]bool, n)
	for _, known := range s.effective.known {
		used[known.List[0].Number] = true
	}
	for used[n] {
		n = (n + 1) % MaxEffective
	}
	return n
}

// overlay returns the effective rule of the keys that match exactly these rules, given by their
// places (see config.Rules.Merged). Its window length is one of Periods.
func (s *Set) overlay(places []int, number int, tally *Tally) *Rule {
	r := newRule(s.Config.Merged(places))
	r.Index, _ = slices.BinarySearch(s.Periods, r.Rate.Period)
	r.Number, r.Tally = number, tally
	return r
}

// effectiveMatches returns the effective rules that are remembered, in the order of their places;
// none if rules do not overlay each other.
func (s *Set) effectiveMatches() (all []*effectiveMatch) {
	e := &s.effective
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, list := range slices.Sorted(maps.Keys(e.known)) {
		all = append(all, e.known[list])
	}
	return all
}

// Known returns all rules. Where they overlay each other, it returns the effective rules that are
// remembered and, if there are more, one that stands for the rest.
func (s *Set) Known() (all []*Rule) {
	if !s.Config.Merge {
		return s.Rules
	}
	for _, known := range s.effectiveMatches() {
		all = append(all, known.List...)
	}
	if len(all) >= MaxEffective {
		rest := s.overlay([]int{0}, MaxEffective, s.effective.rest)
		rest.Rule = config.Rule{Name: restName, Glob: "*", Quota: rest.Quota, Queue: rest.Queue}
		rest.Ref = refOf(&rest.Rule)
		all = append(all, rest)
	}
	return all
}

// restName is the name in statistics of the effective rules that are not remembered.
const restName = "other combinations"

// listKey returns a list as the key of a map.
func listKey(list []int) string {
	var b []byte
	for _, i := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	return string(b)
}
