package server

import (
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/allocator"
)

// sharing returns the configuration of the Allocator of a key. It learns while this Server is the
// owner since a short time.
func (s *Server) sharing(key string, now time.Duration) *allocator.Config {
	if sharing := s.owned.Sharing(now, key); sharing != nil {
		return sharing
	}
	return &s.leaves.cfg
}

// keptLeaves are the leaves of a Server, for its snapshot.Keeper.
type keptLeaves struct{ *Server }

// Learn begins to learn the assignments of all keys from reports. It is called before any other use.
func (s keptLeaves) Learn() {
	s.leaves.cfg = s.Sharing(s.clock.Now())
	s.learns = s.leaves.cfg.Learn
}

// Sharing returns how to share the limits of keys whose assignments are learned from now on.
func (s keptLeaves) Sharing(now time.Duration) allocator.Config {
	cfg := s.leaves.cfg
	cfg.Learn = now + s.cfg.AssignmentTTL
	return cfg
}

// Depart ends the assignments of keys in slots, so that the Server does not count them as
// known: see decider.LeafAnswer.Known.
func (s keptLeaves) Depart(slots *slot.Set) {
	ls := &s.leaves
	ls.mu.Lock()
	names := make([]string, 0, len(ls.byName))
	for name := range ls.byName {
		names = append(names, name)
	}
	ls.mu.Unlock()
	for _, name := range names { // exchanges go on between two leaves
		ls.mu.Lock()
		if l := ls.byName[name]; l != nil {
			s.departLeafLocked(l, slots)
		}
		ls.mu.Unlock()
	}
}

// departLeafLocked ends the assignments of a leaf. leaves.mu is held.
func (s *Server) departLeafLocked(l *leafSession, slots *slot.Set) {
	ls, now := &s.leaves, s.clock.Now()
	var gone []*holding
	for _, at := range l.keys.slots {
		if at.holding != nil && slots.Has(s.RouteKey(at.holding.key)) {
			gone = append(gone, at.holding)
		}
	}
	for _, h := range gone {
		ls.drop(h, now)
		for p := h.parts; p != nil; p = p.next {
			if p.bucket != ls.unlimited && p.bucket.Members() == 0 {
				ls.removeBucket(p.bucket) // its Allocator may not learn when the key comes back
			}
		}
	}
}
