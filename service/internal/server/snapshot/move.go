package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/snapshot/handover"
)

// Depart gives slots up: another member owns them from now on. Every method answers
// decider.ErrMoved for keys of these slots, and the requests that wait get it in order of
// arrival. Over links and on other goroutines they reach the next owner in another order: FIFO
// holds while the owner stays. The assignments of leaves end: leaves report them to the next owner.
// Expect takes slots back.
func (k *Keeper) Depart(slots *slot.Set) {
	k.cfg.Reload.Lock() // requests that wait stay where they are
	defer k.cfg.Reload.Unlock()
	k.cfg.Owned.change(k.cfg.Clock.Now(), func(o *ownership) {
		o.departed.Union(slots)
		o.release(slots)
	})
	k.cfg.Leases.Received(slots)
	for st := range k.cfg.Memory.Current().States {
		st.Queue.DismissMoved()
	}
	k.cfg.Leases.DismissMoved()
	k.cfg.Leaves.Depart(slots, k.cfg.Owned.route)
}

// Expect takes slots over. Their state may follow. Requests for their keys wait until
// Received, but for the time hold at most. Until Received, or until the longest time to live
// of leases has passed, their keys get no new leases, and leases that the last owner has
// granted are adopted when they are renewed. Fencing tokens are greater than those of the last
// owner, unless its clock is ahead by more than the time since its last lease. Leaves get
// the assignments that they say they have, until all that can ask have reported; if hold is zero, no state follows,
// and that lasts for Config.TTL.
func (k *Keeper) Expect(slots *slot.Set, hold time.Duration) {
	k.cfg.Reload.Lock()
	defer k.cfg.Reload.Unlock()
	var longest time.Duration
	for _, l := range k.cfg.Leases.InForce {
		longest = max(longest, l.Longest())
	}
	k.cfg.Leases.Expect(slots, min(longest, rules.MaxSpan))
	now := k.cfg.Clock.Now()
	k.cfg.Owned.take(slots, now, now+k.cfg.TTL, k.cfg.Leaves.Learning(now, hold == 0))
	k.cfg.Owned.change(now, func(o *ownership) {
		o.departed.Remove(slots)
		o.release(slots)
		o.hold(slots, now, hold)
	})
}

// Received says that the state of slots is complete.
func (k *Keeper) Received(slots *slot.Set) {
	k.cfg.Reload.Lock()
	defer k.cfg.Reload.Unlock()
	k.cfg.Leases.Received(slots)
	k.cfg.Owned.change(k.cfg.Clock.Now(), func(o *ownership) { o.release(slots) })
}

// Export takes the state of slots out of the node, and passes it to emit in chunks of up
// to handover.MaxSize bytes, for Import at the new owner. Depart must have been called for the
// slots. emit may keep the chunk. If it returns an error, Export puts the chunk back and ends
// with that error: what is left can be exported later.
//
// Requests that Depart found in progress may still use tokens, from full buckets. Export can be
// called again, to hand over what they have used. The last chunk says which grants were
// settled, of all slots.
func (k *Keeper) Export(ctx context.Context, slots *slot.Set, emit func(chunk []byte) error) error {
	if k.cfg.Chunks == nil {
		return errNoFleet
	}
	send := func(chunk []byte) error {
		err := cmp.Or(ctx.Err(), emit(chunk))
		if err != nil {
			err = errors.Join(err, k.Import(chunk))
		}
		return err
	}
	if err := k.exportCounts(slots, send); err != nil {
		return err
	}
	if err := k.exportLeases(slots, send); err != nil {
		return err
	}
	return k.cfg.Chunks.Grants(k.cfg.Grants.Pages(), send)
}

var errNoFleet = errors.New("server: no state can be handed over without a Config.Fleet")

// exportCounts exports what keys have used.
func (k *Keeper) exportCounts(slots *slot.Set, send func(chunk []byte) error) error {
	for _, kept := range k.cfg.Memory.Current().Kept() {
		of := slots
		if kept.Single != nil {
			if !slots.Has(kept.Single.Route("")) {
				continue
			}
			of = slot.All() // of the one key
		}
		c := handover.Counts{Rule: kept.Rule, Candidate: kept.Candidate, Kind: kept.Buckets.Kind()}
		err := kept.Buckets.Extract(of, func(part []byte) error {
			c.Part = part
			return send(k.cfg.Chunks.Counts(&c))
		})
		if err != nil {
			return fmt.Errorf("server: exporting the counts of rule %q: %w", kept.Rule, err)
		}
	}
	return k.cfg.Memory.Own().Extract(slots, func(part []byte) error { return send(k.cfg.Chunks.Own(part)) })
}

// exportLeases exports limits that were found, and then leases.
func (k *Keeper) exportLeases(slots *slot.Set, send func(chunk []byte) error) error {
	k.cfg.Reload.Lock()
	gone := k.cfg.Leases.Gone()
	k.cfg.Reload.Unlock()
	out, places := handover.Leases{}, map[*lease.Limits]int{}
	add := func(name string, l *lease.Limits) {
		places[l] = len(out.Rules)
		out.Rules = append(out.Rules, handover.Rule{Name: name, Per: l.Per})
	}
	var limits []handover.Limit
	for r, l := range k.cfg.Leases.InForce {
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
	if err := k.cfg.Chunks.Limits(limits, send); err != nil {
		return err
	}
	err := k.cfg.Leases.Extract(slots, places, func(held []lease.SavedLease) error {
		out.Token, out.Held = k.cfg.Leases.Token(), held
		return k.cfg.Chunks.Leases(&out, send)
	})
	if err != nil {
		return err
	}
	out.Token, out.Held = k.cfg.Leases.Token(), nil // also if no lease is held any more
	return k.cfg.Chunks.Leases(&out, send)
}

// ErrNoRule is the error of Import if a chunk has state of rules that are not in force here, or
// that count in another way. That state is lost, as if the rules were new.
var ErrNoRule = errors.New("no rule here can continue it")

// Import adds a chunk of the state of another member while requests are decided: what a key has
// used here and there adds up, to the debt that the rule allows; leases are held also beyond
// the limits. A chunk that comes twice counts once. The error is handover.ErrInvalid or
// ErrNoRule.
func (k *Keeper) Import(chunk []byte) error {
	if k.cfg.Chunks == nil {
		return errNoFleet
	}
	c, err := k.cfg.Chunks.Decode(chunk)
	switch {
	case err != nil:
	case k.imported.first(c.ID):
		err = k.importChunk(c)
	}
	if err != nil {
		return fmt.Errorf("server: importing state: %w", err)
	}
	return nil
}

func (k *Keeper) importChunk(c *handover.Chunk) error {
	k.cfg.Reload.Lock()
	defer k.cfg.Reload.Unlock()
	rs := k.cfg.Memory.Current()
	for _, p := range c.Grants {
		k.cfg.Grants.RestorePage(p)
	}
	switch {
	case c.Counts != nil:
		return k.importCounts(rs, c.Counts)
	case c.Own != nil:
		return k.cfg.Memory.Own().Absorb(c.Own)
	case c.Leases != nil:
		under := k.restoredRules(func(place int) (string, config.Per) { return c.Leases.Rules[place].Name, c.Leases.Rules[place].Per })
		k.cfg.Leases.Absorb(c.Leases.Held, c.Leases.Token, under)
	}
	byName := k.cfg.Leases.ByName()
	for _, l := range c.Limits {
		here := byName[l.Rule]
		if here == nil || !here.Restore([]lease.SavedLimit{l.SavedLimit}) {
			return fmt.Errorf("the limits of rule %q: %w", l.Rule, ErrNoRule)
		}
	}
	return nil
}

func (k *Keeper) importCounts(rs *memory.Version, c *handover.Counts) error {
	for _, kept := range rs.Kept() {
		if kept.Name == (memory.Name{Rule: c.Rule, Candidate: c.Candidate}) && kept.Buckets.Kind() == c.Kind {
			return kept.Buckets.Absorb(c.Part, kept.Debt)
		}
	}
	return fmt.Errorf("the counts of rule %q: %w", c.Rule, ErrNoRule)
}

// maxImported bounds the chunks of which the Keeper remembers that it has imported them.
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
