package server

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/quota"
)

// maxOverlays bounds the effective rules that overlays remembers.
const maxOverlays = 1000

// overlays are the effective rules of keys, where all rules that match a key
// overlay each other (config.Rules.Merge).
//
// A key counts in the windows of the period of its effective rule; all keys of a
// period share one state, which is made when the rules are loaded. The limit is
// passed to each call. An effective rule is computed from immutable data: up to
// maxOverlays of them are remembered, each with its own counts, and all further
// ones are computed on each lookup and share rest.
type overlays struct {
	server *Server
	rules  *rules
	states map[time.Duration]*state
	rest   *counts

	mu    sync.Mutex         // guards known
	known map[string]overlay // by places
}

type overlay struct {
	places []int
	match  *match
}

// compileOverlays makes the states for next, or takes those of old. An effective
// rule stays known and keeps its counts if all its parts are still there.
func (s *Server) compileOverlays(next, old *rules) error {
	o := &overlays{server: s, rules: next, states: map[time.Duration]*state{}, rest: new(counts), known: map[string]overlay{}}
	next.overlays = o
	base := next.Config.Rules[0]
	memory := max(s.cfg.Memory/max(len(next.Periods)+s.ownTables(), 1), quota.MinMemory)
	s.own.SetMemory(s.ownMemory(memory))
	for _, period := range next.Periods {
		if old != nil && old.overlays != nil && old.Config.Rules[0].Algorithm == base.Algorithm {
			o.states[period] = old.overlays.states[period]
		}
		if st := o.states[period]; st != nil {
			st.buckets.SetMemory(memory)
			continue
		}
		b, err := quota.SharedWindows(s.clock, base.Algorithm, period, memory)
		if err != nil {
			return err
		}
		s.shareKeys(b)
		st := &state{since: s.since(), buckets: b, limits: s.leases.NewLimits(windowName(period), "", nil)}
		st.queue.Init(s.clock, s.room, b)
		o.states[period] = st
	}
	if old == nil || old.overlays == nil {
		return nil
	}
	o.rest = old.overlays.rest
	place := map[string]int{}
	for i := range next.Config.Rules {
		place[next.Config.Rules[i].Name] = i
	}
	for _, was := range old.overlays.all() {
		var places []int
		for _, i := range was.places {
			if at, ok := place[old.Config.Rules[i].Name]; ok {
				places = append(places, at)
			}
		}
		if slices.Sort(places); len(places) == len(was.places) {
			o.add(places, was.match.list[0].counts)
		}
	}
	return nil
}

// find returns the effective rule of the keys that match these rules.
func (o *overlays) find(places []int) *match {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.known[listKey(places)]; ok {
		return known.match
	}
	if len(o.known) >= maxOverlays {
		return o.match(places, o.rest)
	}
	return o.add(places, new(counts))
}

func (o *overlays) add(places []int, c *counts) *match {
	m := o.match(places, c)
	o.known[listKey(places)] = overlay{places, m}
	return m
}

func (o *overlays) match(places []int, c *counts) *match {
	r := o.rules.Overlay(places)
	stored, _ := o.server.storedRule(&r.Rule, windowName(r.Rate.Period)) // windows of all periods can be stored
	share := o.server.shareOf(r.Quota)
	return newMatch(o.rules.id, &rule{Rule: *r, state: o.states[r.Rate.Period], counts: c, baseLimit: share.Limit(), stored: stored})
}

// all returns the known effective rules, in the order of their places.
func (o *overlays) all() (all []overlay) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, list := range slices.Sorted(maps.Keys(o.known)) {
		all = append(all, o.known[list])
	}
	return all
}

// list returns the known effective rules and, if there are more, one that stands
// for the rest.
func (o *overlays) list() (all []*rule) {
	for _, known := range o.all() {
		all = append(all, known.match.list...)
	}
	if len(all) >= maxOverlays {
		rest := o.match([]int{0}, o.rest).list[0]
		rest.Rule.Rule = config.Rule{Name: restName, Glob: "*", Quota: rest.Quota, Queue: rest.Queue}
		all = append(all, rest)
	}
	return all
}

// restName is the name in statistics of the effective rules that are not known.
const restName = "other combinations"

// listKey returns a list as the key of a map.
func listKey(list []int) string {
	var b []byte
	for _, i := range list {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	return string(b)
}
