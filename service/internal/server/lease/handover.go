package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
)

// Share makes the Registry one of a fleet that shares the secret of ids. route returns the
// slot of a key. It must be called before any other use.
func (g *Registry) Share(secret siphash.Key, route func(key string) uint16) {
	g.secret, g.fleet, g.route = secret, true, route
}

// Expect says that this node owns slots from now on, and that the last owner may have granted
// leases with a time to live of up to longest. Calls of Expect and Received must not be
// concurrent.
func (g *Registry) Expect(slots *slot.Set, longest time.Duration) {
	now := g.clock.Now()
	g.mu.Lock()
	g.token = max(g.token, firstToken())
	g.mu.Unlock()
	g.expected.Expect(slots, now, longest)
}

// Received says that all leases of the keys of slots are known.
func (g *Registry) Received(slots *slot.Set) { g.expected.Received(slots) }

// slotOf returns the slot of a key; 0 if the node is in no fleet.
func (g *Registry) slotOf(key string) uint16 {
	if g.route == nil {
		return 0
	}
	return g.route(key)
}

// awaitsLocked returns the time until leases in a slot that an earlier owner has granted must
// have expired.
func (l *Limits) awaitsLocked(of uint16) time.Duration {
	start, ok := l.registry.expected.Started(of)
	if !ok || l.terms == nil {
		return 0
	}
	return max(start+MaxTTL(l.terms)-l.registry.clock.Now(), 0)
}

// Extract takes the leases of the keys of slots out of the Registry, and passes them to emit,
// some at a time. Until is the time that they have left. places is as in State. If emit returns
// an error, those leases are held again, and Extract returns the error.
func (g *Registry) Extract(slots *slot.Set, places map[*Limits]int, emit func([]SavedLease) error) error {
	g.mu.Lock()
	all := slices.AppendSeq(make([]*holding, 0, len(g.held)), maps.Values(g.held))
	g.mu.Unlock()
	all = slices.DeleteFunc(all, func(h *holding) bool { return !slots.Has(g.slotOf(h.Key)) })
	for some := range slices.Chunk(all, copyAtOnce) {
		taken, now := g.takeOut(some)
		if len(taken) == 0 {
			continue
		}
		saved := make([]SavedLease, len(taken))
		for i, h := range taken {
			saved[i] = h.SavedLease
			saved[i].Until -= now
			saved[i].Under = placesOf(h, places)
		}
		if err := emit(saved); err != nil {
			g.putBack(taken)
			return err
		}
		for _, h := range taken {
			h.release(weir.Ignored, 0)
		}
	}
	return nil
}

// takeOut takes those leases out that are still held.
func (g *Registry) takeOut(some []*holding) (taken []*holding, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now = g.clock.Now()
	for _, h := range some {
		if h.heapIndex >= 0 && h.Until > now {
			g.due.Remove(h.heapIndex)
			delete(g.held, h.ID)
			taken = append(taken, h)
		}
	}
	return taken, now
}

func (g *Registry) putBack(taken []*holding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range taken {
		g.holdLocked(h, h.Until)
	}
}

// placesOf returns the places of the rules that a lease holds units of.
func placesOf(h *holding, places map[*Limits]int) (under []int) {
	for j := range h.parts { // not the parts themselves: a permit may be released meanwhile
		if place, ok := places[h.parts[j].bucket.limits]; ok {
			under = append(under, place)
		}
	}
	return under
}

// Token returns the last fencing token.
func (g *Registry) Token() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.token
}

// Absorb holds leases that Extract has taken out of the Registry of another node, also beyond
// the limits. Of a lease that is held already, the later end counts. Fencing tokens are greater
// than token from now on. under is as in Hold.
//
// If requests wait for units of a bucket, the first of them gets its units, too: there are none
// while the slots are expected.
func (g *Registry) Absorb(leases []SavedLease, token uint64, under func(place int, key string) Under) {
	g.queue.mu.Lock() // so that no other request is served meanwhile
	defer g.queue.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = max(g.token, token)
	for _, l := range leases {
		now := g.clock.Now()
		h := g.held[l.ID]
		if h == nil {
			g.holdAgainLocked(l, now, l.Until, under)
			continue
		}
		if until := now + l.Until; until > h.Until {
			h.Until = until // its timer fires too early, and is set again
			g.due.Fix(h.heapIndex)
		}
	}
}
