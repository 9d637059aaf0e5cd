// Package leasemodel searches all that can happen to the leases of a key while its owner changes.
//
// A Config bounds the faults: processes that are killed or stopped, owners that are replaced, and messages that are lost or
// late. The search visits every state that a fleet of three members can reach. In each it checks that holders have no more units
// than the limit, and that the limit can be granted again after a while. Each transition has the name of the function that it
// models, in the packages ring, server and lease of the service.
//
// The model leaves out the shares of members that cannot ask the owner, limits that adapt, and requests that wait. Members
// agree on an owner within a tick, which is half of the longest time to live of a lease.
package leasemodel

import (
	"fmt"
	"slices"
	"strings"
)

// A Config bounds a search.
type Config struct {
	Crashes int8 // processes that are killed
	Changes int8 // owners that are replaced while they run
	Losses  int8 // messages that are lost or late
	Stops   int8 // processes that are stopped, and go on

	// Hold has calls wait while their owner claims leases, as ring.Config.Hold does, and checks that no lease that has ended is held
	// again. Without it, and if a process or a message is lost, such a lease can keep its unit for the rest of its time.
	Hold bool

	// Disagree lets a member grant leases while it takes itself for the owner wrongly. Members agree within a tick, unless one
	// is stopped.
	Disagree bool

	// Overlap lets the owner change again while a claim of the change before is under way.
	Overlap bool

	// ForgetMisses is a defect: an owner whose claim of the leases of an earlier one has failed hands over as if it knew them.
	ForgetMisses bool

	// NoEpochs is a defect: claims have no epoch. So a late one of an earlier owner counts, and a member answers while its own
	// claim of the slot is under way.
	NoEpochs bool
}

// A Result has the findings of a search.
type Result struct {
	States int
	Most   int      // units that holders had at a time
	Trace  []string // the shortest way to a state with more units than allowed, or to one that grants none any more
	Why    string   // what is wrong there; empty if nothing is
}

// Search visits all states. Holders may have up to a number of units at a time.
func (c Config) Search(allowed int) Result {
	first := state{crashes: c.Crashes, changes: c.Changes, losses: c.Losses, stops: c.Stops}
	for i := range first.members {
		first.members[i].up = true
	}
	first.members[0].owns = true
	type from struct {
		state int32
		what  string
	}
	seen, states, came := map[state]struct{}{first: {}}, []state{first}, []from{{-1, "start"}}
	r := Result{}
	trace := func(at int32, why string) Result {
		for ; at >= 0; at = came[at].state {
			r.Trace = append(r.Trace, came[at].what)
		}
		slices.Reverse(r.Trace)
		r.States, r.Why = len(states), why
		return r
	}
	for at := int32(0); int(at) < len(states); at++ {
		s := states[at]
		n := s.units()
		r.Most = max(r.Most, n)
		if n > allowed {
			return trace(at, fmt.Sprintf("holders have %d units of %d", n, Limit))
		}
		if id, ok := s.revived(); ok && c.Hold {
			return trace(at, fmt.Sprintf("lease %d has ended, and is held again", id))
		}
		if !c.recovers(s) {
			return trace(at, "no lease is granted any more")
		}
		for _, next := range c.next(&s) {
			if _, known := seen[next.next]; !known {
				seen[next.next] = struct{}{}
				states, came = append(states, next.next), append(came, from{at, next.what})
			}
		}
	}
	r.States = len(states)
	return r
}

// units returns the units that holders have.
func (s *state) units() (n int) {
	for _, l := range s.leases {
		if l.valid > 0 {
			n++
		}
	}
	return n
}

// revived returns a lease that has ended, and that the owner holds all the same.
func (s *state) revived() (id int, ok bool) {
	for id, l := range s.leases {
		if m := &s.members[s.owner]; l.ended && m.owns && m.held[id] > 0 {
			return id, true
		}
	}
	return 0, false
}

// recovers reports whether the limit can be granted again: if no request comes, all processes run and claims end.
func (c Config) recovers(s state) bool {
	for i := range s.members {
		s.members[i].stopped = false
		if !s.members[i].up {
			s.members[i] = member{up: true}
		}
	}
	for i := range s.members {
		for at := range s.members[i].claims {
			cl := &s.members[i].claims[at]
			cl.pending, cl.missing = [members]bool{}, true
		}
		c.finish(&s, int8(i))
		s.members[i].owns = int8(i) == s.owner
	}
	for range 2 * maxTTL {
		s.tick()
	}
	m := &s.members[s.owner]
	return m.awaits == 0 && m.count() < Limit
}

// String prints the trace.
func (r Result) String() string {
	return fmt.Sprintf("%d states; at most %d units of %d; %s\n  %s", r.States, r.Most, Limit, r.Why, strings.Join(r.Trace, "\n  "))
}
