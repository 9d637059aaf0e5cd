package server

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	snapshot "github.com/weir-go/weir/service/internal/server/state"
)

// carryFor is how long the state of a rule that is missing is kept. A start with the
// wrong rules, or without any, must not lose what all keys have used.
const carryFor = 24 * time.Hour

// carried is the state in a snapshot of rules that are missing, or that count in
// another way now.
type carried struct {
	counts []snapshot.Counts
	limits []snapshot.Limits
}

// restore continues the counts and limits of rules, and no longer carries them. It
// returns how many rules continue their counts, and why others do not.
func (c *carried) restore(all []kept, byName map[string]*rule) (continued int, skipped []string) {
	skip := func(what, rule string, err any) {
		skipped = append(skipped, fmt.Sprintf("the %s of rule %q: %v", what, rule, err))
	}
	byCounts := map[countsName]kept{}
	for _, k := range all {
		byCounts[k.countsName] = k
	}
	c.counts = slices.DeleteFunc(c.counts, func(was snapshot.Counts) bool {
		what := "counts"
		if was.Candidate {
			what = "candidate's counts"
		}
		here, ok := byCounts[countsName{was.Rule, was.Candidate}]
		switch {
		case !ok && byName[was.Rule] == nil:
			skip(what, was.Rule, "it is gone")
			return false
		case !ok || here.buckets.Kind() != was.Kind:
			skip(what, was.Rule, "it counts in another way now")
			return false
		}
		if err := here.buckets.Restore(bytes.NewReader(was.Data)); err != nil {
			skip(what, was.Rule, err)
		} else if !was.Candidate {
			here.state.since = was.Since
			continued++
		}
		return true
	})
	c.limits = slices.DeleteFunc(c.limits, func(was snapshot.Limits) bool {
		if r := byName[was.Rule]; r != nil && r.limits.Restore(was.Found) {
			return true
		}
		skip("limits", was.Rule, "no rule has that name and an auto limit")
		return false
	})
	return continued, skipped
}

// leave notes the wall time at which rules were missing first.
func (c *carried) leave(wall time.Duration) {
	for i := range c.counts {
		if c.counts[i].Left == 0 {
			c.counts[i].Left = wall
		}
	}
	for i := range c.limits {
		if c.limits[i].Left == 0 {
			c.limits[i].Left = wall
		}
	}
}

// expire drops what has been carried for long enough.
func (c *carried) expire(wall time.Duration) {
	c.counts = slices.DeleteFunc(c.counts, func(was snapshot.Counts) bool { return wall-was.Left > carryFor })
	c.limits = slices.DeleteFunc(c.limits, func(was snapshot.Limits) bool { return wall-was.Left > carryFor })
}

func (c *carried) clone() carried { return carried{slices.Clone(c.counts), slices.Clone(c.limits)} }

// reclaim continues what is carried of the rules that are new.
func (s *Server) reclaim(next, old *rules) {
	if old == nil || len(s.carried.counts)+len(s.carried.limits) == 0 {
		return
	}
	had := map[*state]bool{}
	for st := range old.states {
		had[st] = true
	}
	var fresh []kept
	for _, k := range next.kept() {
		if !had[k.state] {
			fresh = append(fresh, k)
		}
	}
	s.carried.restore(fresh, next.byName())
}
