package leasemodel

import (
	"fmt"
	"slices"
)

const (
	members = 3
	ids     = 3 // leases that can be granted in all
	maxTTL  = 2 // of leases, in ticks

	// Limit is the units of the one key. A lease has one.
	Limit = 1
)

// A member is a node of the fleet. All leases are of one key, whose slot one member owns.
type member struct {
	up      bool
	stopped bool
	owns    bool          // it decides about the slot: its ring.view says so, and Keeper.Depart was not called
	awaits  int8          // lease.Registry.expected: ticks until leases of earlier owners must have ended
	unknown int8          // ring.Ring.unknown: ticks in which it does not know the leases of a lost owner
	held    [ids]int8     // lease.Registry.held: ticks that a lease has left
	kept    [ids]int8     // ring.keptState: leases that were handed over
	claims  [2]claim      // ring.Ring.claim, under way: the older one first
	epochs  [members]int8 // of the last claim of the slot by each member that it knows
}

// A claim asks other members for their state.
type claim struct {
	open    bool
	epoch   int8
	again   bool          // it was made once more by a member that took itself for the owner wrongly
	pending [members]bool // members that have not answered
	asked   [members]bool // of these, the ones that have given the slot up
	ended   [members]bool // of these, the ones whose process has ended since
	missing bool          // the state of some is not known
	unknown bool          // it was not known when the claim began
}

// A lease has the knowledge of its holder.
type lease struct {
	granted bool
	valid   int8 // ticks for which the holder may use the unit
	ended   bool // the owner has said so, or answered its return
}

// A state is the whole machine. It is comparable.
type state struct {
	owner   int8 // that members agree on, sooner or later
	lost    bool // its process has ended, without handing over
	members [members]member
	leases  [ids]lease
	late    [members][ids]int8 // chunks under way to a member, with the ticks that their lease had left

	crashes, changes, losses, stops int8 // that are still to come
}

// A step is a transition: the function that makes it, and the next state.
type step struct {
	what string
	next state
}

// next returns all transitions of a state.
func (c Config) next(s *state) (all []step) {
	add := func(f func(s *state), format string, args ...any) {
		n := *s
		f(&n)
		n.renumber()
		all = append(all, step{fmt.Sprintf(format, args...), n})
	}
	for i := range members {
		i, m := int8(i), &s.members[i]
		switch {
		case !m.up:
			add(func(s *state) { s.members[i] = member{up: true} }, "%s starts", name(i))
			continue
		case m.stopped:
			add(func(s *state) { s.members[i].stopped = false }, "%s goes on (SIGCONT)", name(i))
			continue
		}
		if s.crashes > 0 {
			add(func(s *state) { s.crash(i) }, "%s is killed", name(i))
		}
		if s.stops > 0 {
			add(func(s *state) { s.stops--; s.members[i].stopped = true }, "%s is stopped (SIGSTOP)", name(i))
		}
		switch {
		case !c.Overlap && s.claiming():
		case s.lost || !s.reachable(s.owner):
			add(func(s *state) { c.gain(s, i) }, "ring.loseLocked, gainLocked: %s owns the slot, and %s is lost", name(i), name(s.owner))
		case i != s.owner && s.changes > 0:
			add(func(s *state) { s.changes--; c.gain(s, i) }, "ring.gainLocked: %s owns the slot after %s", name(i), name(s.owner))
		}
		if m.owns && i != s.owner {
			add(func(s *state) { s.members[i].owns = false }, "ring.refreshLocked: %s sees that %s owns the slot", name(i), name(s.owner))
		}
		if m.owns && (i == s.owner || c.Disagree) && !(c.Hold && m.claims[0].open) {
			all = c.calls(all, s, i)
		}
		all = c.handOver(all, s, i)
		for id, left := range s.late[i] {
			if left > 0 {
				add(func(s *state) { s.late[i][id] = 0; s.absorb(i, id, left) }, "lease.Registry.Absorb: %s takes a late chunk with lease %d", name(i), id)
			}
		}
	}
	for id, l := range s.leases {
		if l.valid > 0 {
			add(func(s *state) { s.leases[id].valid = 0 }, "the holder of lease %d vanishes", id)
		}
	}
	if s.agreed() {
		add(func(s *state) { s.tick() }, "a tick passes")
	}
	return all
}

func name(i int8) string { return string('A' + rune(i)) }

// reachable reports whether a member can be asked. A stopped one is as a dead one to the others.
func (s *state) reachable(i int8) bool { return s.members[i].up && !s.members[i].stopped }

// claiming reports whether a claim is under way.
func (s *state) claiming() bool {
	for i := range s.members {
		if s.members[i].claims[0].open {
			return true
		}
	}
	return false
}

// agreed reports whether no member that runs takes itself for the owner wrongly: they agree within a tick.
func (s *state) agreed() bool {
	for i := range members {
		if m := &s.members[i]; m.up && !m.stopped && m.owns && int8(i) != s.owner {
			return false
		}
	}
	return s.reachable(s.owner) && !s.lost // or another one is the owner first
}

// calls adds the calls of clients at an owner.
func (c Config) calls(all []step, s *state, i int8) []step {
	m := &s.members[i]
	add := func(f func(s *state), format string, args ...any) {
		n := *s
		f(&n)
		all = append(all, step{fmt.Sprintf(format, args...), n})
	}
	for id := range s.leases {
		l := &s.leases[id]
		switch {
		case !l.granted:
			if id > 0 && !s.leases[id-1].granted || m.awaits > 0 || m.count() >= Limit {
				continue // Limits.take refuses it
			}
			add(func(s *state) {
				s.leases[id] = lease{granted: true, valid: maxTTL}
				s.members[i].held[id] = maxTTL
			}, "lease.Registry.Acquire: %s grants lease %d", name(i), id)
			if s.losses > 0 {
				add(func(s *state) {
					s.losses--
					s.leases[id] = lease{granted: true}
					s.members[i].held[id] = maxTTL
				}, "lease.Registry.Acquire: %s grants lease %d, and the answer is lost", name(i), id)
			}
		case m.held[id] > 0 || m.awaits > 0 && m.count() < Limit: // it is known, or Registry.adopt adopts it
			what := "lease.Registry.Renew"
			if m.held[id] == 0 {
				what = "lease.Registry.adopt"
			}
			if l.valid > 0 {
				add(func(s *state) { s.members[i].held[id], s.leases[id].valid = maxTTL, maxTTL }, "%s: %s extends lease %d", what, name(i), id)
				add(func(s *state) { s.members[i].held[id], s.leases[id].valid, s.leases[id].ended = 0, 0, true }, "lease.Registry.Return: %s ends lease %d", name(i), id)
			}
			if s.losses > 0 { // it was sent before, and the holder does not get the answer
				add(func(s *state) { s.losses--; s.members[i].held[id] = maxTTL }, "%s: %s extends lease %d for a request that came late", what, name(i), id)
			}
		case l.valid > 0: // decider.ErrNoLease
			add(func(s *state) { s.leases[id].valid, s.leases[id].ended = 0, true }, "lease.Registry.Renew: %s does not know lease %d", name(i), id)
		}
	}
	return all
}

// count returns the units that are held at a member.
func (m *member) count() (n int) {
	for _, left := range m.held {
		if left > 0 {
			n++
		}
	}
	return n
}

// gain makes a member the owner, and has it claim the state of the others.
func (c Config) gain(s *state, i int8) {
	m, lost := &s.members[i], s.lost || !s.reachable(s.owner)
	s.owner, s.lost, m.owns = i, false, true
	if lost {
		for j := range members {
			if s.reachable(int8(j)) {
				s.members[j].unknown = maxTTL // loseLocked
			}
		}
		for id, left := range m.kept { // recallLocked
			if left > 0 {
				s.absorb(i, id, left)
			}
		}
		m.kept = [ids]int8{}
	}
	m.awaits = maxTTL // Keeper.Expect
	if c.Overlap {
		m.epochs[i] = m.later(i)
	}
	next := claim{open: true, epoch: m.epochs[i], missing: m.unknown > 0, unknown: m.unknown > 0}
	asks := false
	for j := range members {
		if int8(j) != i && s.reachable(int8(j)) {
			next.pending[j], asks = true, true
		}
	}
	if !asks && m.unknown == 0 {
		m.awaits = 0
		return
	}
	if m.claims[0].open {
		m.claims[0] = m.claims[1]
	}
	m.claims[0], m.claims[1] = m.claims[1], next
	if !m.claims[0].open {
		m.claims[0], m.claims[1] = m.claims[1], claim{}
	}
	c.finish(s, i)
}

// renumber makes epochs as small as their order allows, so that fewer states differ.
func (s *state) renumber() {
	var all [(members + 2) * members]*int8
	n := 0
	for i := range s.members {
		m := &s.members[i]
		for k := range m.epochs {
			if m.epochs[k] > 0 {
				all[n], n = &m.epochs[k], n+1
			}
		}
		for at := range m.claims {
			if m.claims[at].open {
				all[n], n = &m.claims[at].epoch, n+1
			}
		}
	}
	epochs := all[:n]
	slices.SortFunc(epochs, func(a, b *int8) int { return int(*a - *b) })
	was, is := int8(-1), int8(members-1)
	for _, e := range epochs {
		if *e != was {
			was, is = *e, is+1
			for is%members != was%members {
				is++
			}
		}
		*e = is
	}
}

// later returns an epoch after all that a member knows. No two members have the same.
func (m *member) later(i int8) int8 { return (slices.Max(m.epochs[:])/members+1)*members + i }

// refuses reports whether a member knows a later claim than one of another member, by a third one or its own.
func (m *member) refuses(cl *claim, of int8) bool {
	for k, epoch := range m.epochs {
		if int8(k) != of && epoch > cl.epoch {
			return true
		}
	}
	return false
}

// claimsBefore reports whether a claim before an epoch is under way.
func (m *member) claimsBefore(epoch int8) bool {
	for _, cl := range m.claims {
		if cl.open && cl.epoch < epoch {
			return true
		}
	}
	return false
}

// handOver adds what can happen to the claims of a member.
func (c Config) handOver(all []step, s *state, i int8) []step {
	m := &s.members[i]
	for at, cl := range m.claims {
		for j, pending := range cl.pending {
			if !cl.open || !pending {
				continue
			}
			j := int8(j)
			add := func(f func(s *state), format string, args ...any) {
				n := *s
				f(&n)
				n.renumber()
				all = append(all, step{fmt.Sprintf(format, args...), n})
			}
			answered := func(f func(s *state)) func(s *state) {
				return func(s *state) {
					own := &s.members[i].claims[at]
					own.pending[j], own.asked[j], own.ended[j] = false, false, false
					f(s)
					c.end(s, i, at)
				}
			}
			failed := answered(func(s *state) { s.members[i].claims[at].missing = true })
			if cl.ended[j] {
				add(failed, "ring.claimFrom: %s has ended before it answered %s", name(j), name(i))
				continue
			}
			if s.members[j].stopped {
				if s.losses > 0 {
					add(func(s *state) { s.losses--; failed(s) }, "ring.claimFrom: %s gives up on %s, which is stopped", name(i), name(j))
				}
				continue
			}
			switch {
			case c.NoEpochs, !c.Overlap: // there is no other claim
			case s.members[j].refuses(&cl, i) && i != s.owner && !(c.Disagree && m.owns && !cl.again):
				add(answered(func(*state) {}), "ring.claimFrom: %s drops its claim, because %s knows a later one", name(i), name(j))
				continue
			case s.members[j].refuses(&cl, i):
				add(func(s *state) {
					m := &s.members[i]
					m.epochs[i] = max(s.members[j].later(i), m.later(i))
					m.claims[at].epoch, m.claims[at].asked, m.claims[at].again = m.epochs[i], [members]bool{}, i != s.owner
				}, "ring.claimFrom: %s claims once more, because %s knows a later claim", name(i), name(j))
				continue
			case !cl.asked[j]:
				add(func(s *state) {
					s.depart(j)
					s.members[j].epochs[i], s.members[i].claims[at].asked[j] = max(s.members[j].epochs[i], cl.epoch), true
				}, "ring.onClaim, Keeper.Depart: %s gives up for %s", name(j), name(i))
				continue
			case s.members[j].claimsBefore(cl.epoch): // it answers when they have ended
				if s.losses > 0 {
					add(func(s *state) { s.losses--; failed(s) }, "ring.claimFrom: %s does not wait any longer for %s", name(i), name(j))
				}
				continue
			}
			handOver := func(s *state) {
				s.depart(j)
				own, from := &s.members[i].claims[at], &s.members[j]
				own.missing = own.missing || from.unknown > 0
				for id, left := range from.held {
					if left > 0 {
						s.absorb(i, id, left)
					}
				}
			}
			add(answered(func(s *state) {
				handOver(s)
				from := &s.members[j]
				from.kept, from.held = from.held, [ids]int8{}
			}), "ring.onClaim, Keeper.Depart, lease.Registry.Extract: %s hands over to %s", name(j), name(i))
			if s.losses == 0 {
				continue
			}
			add(func(s *state) { s.losses--; failed(s) }, "ring.claimFrom: the claim of %s to %s is lost", name(i), name(j))
			if s.members[j].count() == 0 {
				continue
			}
			add(answered(func(s *state) {
				s.losses--
				handOver(s)
				s.members[i].claims[at].missing = true
			}), "lease.Registry.putBack: %s has handed over to %s, and the answer is lost", name(j), name(i))
			add(answered(func(s *state) {
				s.losses--
				s.depart(j)
				s.late[i] = s.members[j].held
				s.members[i].claims[at].missing = true
			}), "lease.Registry.putBack: the chunk of %s to %s is late", name(j), name(i))
		}
	}
	return all
}

// depart is Keeper.Depart, at the member that is asked.
func (s *state) depart(j int8) { s.members[j].owns, s.members[j].awaits = false, 0 }

// absorb is lease.Registry.Absorb. Of a lease that is held already, the later end counts.
func (s *state) absorb(i int8, id int, left int8) {
	held := &s.members[i].held[id]
	*held = max(*held, left)
}

// end ends a claim once all members have answered.
func (c Config) end(s *state, i int8, at int) {
	m := &s.members[i]
	cl := m.claims[at]
	if !cl.open || cl.pending != [members]bool{} {
		return
	}
	m.claims[at] = claim{}
	if at == 0 {
		m.claims[0], m.claims[1] = m.claims[1], claim{}
	}
	switch {
	case !cl.missing:
		m.awaits = 0 // Keeper.Received
	case !cl.unknown:
		m.awaits = maxTTL // Keeper.Expect: nothing more comes
		if !c.ForgetMisses {
			m.unknown = maxTTL // ring.miss
		}
	}
}

// finish ends the claims that no member has still to answer.
func (c Config) finish(s *state, i int8) {
	for at := len(s.members[i].claims) - 1; at >= 0; at-- {
		c.end(s, i, at)
	}
}

// crash ends a process. Its state is lost.
func (s *state) crash(i int8) {
	s.crashes--
	s.lost = s.lost || i == s.owner
	s.members[i], s.late[i] = member{}, [ids]int8{}
	for j := range s.members {
		for at := range s.members[j].claims {
			cl := &s.members[j].claims[at]
			cl.ended[i] = cl.pending[i]
		}
	}
}

// tick lets time pass: lease.Registry.expire.
func (s *state) tick() {
	for i := range s.members {
		m := &s.members[i]
		less(&m.awaits)
		less(&m.unknown)
		for id := range m.held {
			less(&m.held[id])
		}
	}
	for id := range s.leases {
		less(&s.leases[id].valid)
	}
}

func less(ticks *int8) { *ticks = max(*ticks-1, 0) }
