package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/handover"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Depart gives slots up: another member owns them from now on. Every method answers
// decider.ErrMoved for keys of these slots, and the requests that wait get it in order of
// arrival. Over links and on other goroutines they reach the next owner in another order: FIFO
// holds while the owner stays. The assignments of leaves end: leaves report them to the next owner.
// Expect takes slots back.
func (s *Server) Depart(slots *slot.Set) {
	s.reload.Lock() // requests that wait stay where they are
	defer s.reload.Unlock()
	s.owned.change(s.clock.Now(), func(o *ownership) {
		o.departed.Union(slots)
		o.release(slots)
	})
	s.leases.Received(slots)
	for st := range s.memory.Current().States {
		st.Queue.DismissMoved()
	}
	s.leases.DismissMoved()
	s.departLeaves(slots)
}

// Expect takes slots over, whose state may follow. Requests for their keys wait until
// Received, but for the time hold at most. Until Received, or until the longest time to live
// of leases has passed, their keys get no new leases, and leases that the last owner has
// granted are adopted when they are renewed. Fencing tokens are greater than those of the last
// owner, unless its clock is ahead by more than the time since its last lease. For an
// AssignmentTTL, leaves get the assignments that they say they have, and others get none.
func (s *Server) Expect(slots *slot.Set, hold time.Duration) {
	s.reload.Lock()
	defer s.reload.Unlock()
	var longest time.Duration
	for _, l := range s.leases.InForce {
		longest = max(longest, l.Longest())
	}
	s.leases.Expect(slots, min(longest, rules.MaxSpan))
	now := s.clock.Now()
	s.owned.take(slots, now, now+s.cfg.AssignmentTTL, s.leaves.cfg)
	s.owned.change(now, func(o *ownership) {
		o.departed.Remove(slots)
		o.release(slots)
		o.hold(slots, now, hold)
	})
}

// Received says that the state of slots is complete.
func (s *Server) Received(slots *slot.Set) {
	s.reload.Lock()
	defer s.reload.Unlock()
	s.leases.Received(slots)
	s.owned.change(s.clock.Now(), func(o *ownership) { o.release(slots) })
}

// Export takes the state of slots out of the Server, and passes it to emit in chunks of up
// to handover.MaxSize bytes, for Import at the new owner. Depart must have been called for the
// slots. emit may keep the chunk. If it returns an error, Export puts the chunk back and ends
// with that error: what is left can be exported later.
//
// Requests that Depart found in progress may still use tokens, from full buckets. Export can be
// called again, to hand over what they have used. The last chunk says which grants were
// settled, of all slots.
func (s *Server) Export(ctx context.Context, slots *slot.Set, emit func(chunk []byte) error) error {
	if s.chunks == nil {
		return errNoFleet
	}
	send := func(chunk []byte) error {
		err := cmp.Or(ctx.Err(), emit(chunk))
		if err != nil {
			err = errors.Join(err, s.Import(chunk))
		}
		return err
	}
	if err := s.exportCounts(slots, send); err != nil {
		return err
	}
	if err := s.exportLeases(slots, send); err != nil {
		return err
	}
	return s.chunks.Grants(s.grants.Pages(), send)
}

var errNoFleet = errors.New("server: no state can be handed over without a Config.Fleet")

// exportCounts exports what keys have used.
func (s *Server) exportCounts(slots *slot.Set, send func(chunk []byte) error) error {
	for _, k := range s.memory.Current().Kept() {
		of := slots
		if k.Single != nil {
			if !slots.Has(k.Single.Route("")) {
				continue
			}
			of = slot.All() // of the one key
		}
		c := handover.Counts{Rule: k.Rule, Candidate: k.Candidate, Kind: k.Buckets.Kind()}
		err := k.Buckets.Extract(of, func(part []byte) error {
			c.Part = part
			return send(s.chunks.Counts(&c))
		})
		if err != nil {
			return fmt.Errorf("server: exporting the counts of rule %q: %w", k.Rule, err)
		}
	}
	return s.memory.Own().Extract(slots, func(part []byte) error { return send(s.chunks.Own(part)) })
}

// exportLeases exports limits that were found, and then leases.
func (s *Server) exportLeases(slots *slot.Set, send func(chunk []byte) error) error {
	s.reload.Lock()
	gone := s.leases.Gone()
	s.reload.Unlock()
	out, places := handover.Leases{}, map[*lease.Limits]int{}
	add := func(name string, l *lease.Limits) {
		places[l] = len(out.Rules)
		out.Rules = append(out.Rules, handover.Rule{Name: name, Per: l.Per})
	}
	var limits []handover.Limit
	for r, l := range s.leases.InForce {
		for _, found := range l.Found() {
			if slots.Has(r.Route(found.Bucket)) {
				limits = append(limits, handover.Limit{Rule: r.Name, SavedLimit: found})
			}
		}
		add(r.Name, l)
	}
	for name, l := range gone {
		add(name, l)
	}
	if err := s.chunks.Limits(limits, send); err != nil {
		return err
	}
	err := s.leases.Extract(slots, places, func(held []lease.SavedLease) error {
		out.Token, out.Held = s.leases.Token(), held
		return s.chunks.Leases(&out, send)
	})
	if err != nil {
		return err
	}
	out.Token, out.Held = s.leases.Token(), nil // also if no lease is held any more
	return s.chunks.Leases(&out, send)
}

// ErrNoRule is the error of Import if a chunk has state of rules that are not in force here, or
// that count in another way. That state is lost, as if the rules were new.
var ErrNoRule = errors.New("no rule here can continue it")

// Import adds a chunk of the state of another member while requests are decided: what a key has
// used here and there adds up, to the debt that the rule allows; leases are held also beyond
// the limits. A chunk that comes twice counts once. The error is handover.ErrInvalid or
// ErrNoRule.
func (s *Server) Import(chunk []byte) error {
	if s.chunks == nil {
		return errNoFleet
	}
	c, err := s.chunks.Decode(chunk)
	switch {
	case err != nil:
	case s.imported.first(c.ID):
		err = s.importChunk(c)
	}
	if err != nil {
		return fmt.Errorf("server: importing state: %w", err)
	}
	return nil
}

func (s *Server) importChunk(c *handover.Chunk) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	rs := s.memory.Current()
	for _, p := range c.Grants {
		s.grants.RestorePage(p)
	}
	switch {
	case c.Counts != nil:
		return s.importCounts(rs, c.Counts)
	case c.Own != nil:
		return s.memory.Own().Absorb(c.Own)
	case c.Leases != nil:
		under := s.restoredRules(func(place int) (string, config.Per) { return c.Leases.Rules[place].Name, c.Leases.Rules[place].Per })
		s.leases.Absorb(c.Leases.Held, c.Leases.Token, under)
	}
	byName := s.leases.ByName()
	for _, l := range c.Limits {
		here := byName[l.Rule]
		if here == nil || !here.Restore([]lease.SavedLimit{l.SavedLimit}) {
			return fmt.Errorf("the limits of rule %q: %w", l.Rule, ErrNoRule)
		}
	}
	return nil
}

func (s *Server) importCounts(rs *memory.Version, c *handover.Counts) error {
	for _, k := range rs.Kept() {
		if k.Name == (memory.Name{Rule: c.Rule, Candidate: c.Candidate}) && k.Buckets.Kind() == c.Kind {
			return k.Buckets.Absorb(c.Part, k.Debt)
		}
	}
	return fmt.Errorf("the counts of rule %q: %w", c.Rule, ErrNoRule)
}

// maxImported bounds the chunks of which the Server remembers that it has imported them.
const maxImported = 1 << 14

// imported remembers the chunks that came last.
type imported struct {
	mu   sync.Mutex // guards what follows
	ids  map[handover.ID]struct{}
	last []handover.ID // a ring
	next int
}

// first reports whether a chunk comes for the first time.
func (m *imported) first(id handover.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.ids[id]; again {
		return false
	}
	if m.ids == nil {
		m.ids = map[handover.ID]struct{}{}
	}
	m.ids[id] = struct{}{}
	if len(m.last) < maxImported {
		m.last = append(m.last, id)
		return true
	}
	delete(m.ids, m.last[m.next])
	m.last[m.next] = id
	m.next = (m.next + 1) % maxImported
	return true
}
