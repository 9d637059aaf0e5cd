package unknown

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

// Slots are slots of which another node was the last owner. That may have granted leases of
// their keys that this node does not know. The zero value has none. Calls of Expect and Received must not be
// concurrent.
type Slots struct{ expected atomic.Pointer[[]expectation] }

// An expectation is slots of the same instant.
type expectation struct {
	slots *slot.Set // it does not change
	start time.Duration
	until time.Duration // when leases under any rule must have expired
}

// maxExpectations bounds the expectations. With more, two become one with the later start.
const maxExpectations = 64

// Expect adds slots. Their last owner may have granted leases with a time to live of up to longest.
func (s *Slots) Expect(slots *slot.Set, now, longest time.Duration) {
	all := slices.DeleteFunc(s.copied(), func(x expectation) bool { return x.until <= now })
	if n := len(all); n == maxExpectations {
		both := *all[0].slots
		both.Union(all[1].slots)
		all[1] = expectation{&both, all[1].start, max(all[0].until, all[1].until)}
		all = all[1:]
	}
	added := *slots
	all = append(all, expectation{&added, now, now + longest})
	s.expected.Store(&all)
}

// copied returns a copy of the present expectations.
func (s *Slots) copied() []expectation {
	if all := s.expected.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

// Received removes slots: all leases of their keys are known.
func (s *Slots) Received(slots *slot.Set) {
	all := s.copied()
	for i := range all {
		rest := *all[i].slots
		rest.Remove(slots)
		all[i].slots = &rest
	}
	all = slices.DeleteFunc(all, func(x expectation) bool { return *x.slots == slot.Set{} })
	if len(all) == 0 {
		s.expected.Store(nil)
		return
	}
	s.expected.Store(&all)
}

// Any reports whether there may be unknown leases.
func (s *Slots) Any(now time.Duration) bool {
	all := s.expected.Load()
	return all != nil && slices.ContainsFunc(*all, func(x expectation) bool { return x.until > now })
}

// Started returns the last instant at which a slot was expected; ok is false if it is not expected.
func (s *Slots) Started(of uint16) (start time.Duration, ok bool) {
	all := s.expected.Load()
	if all == nil {
		return 0, false
	}
	for _, x := range *all {
		if x.slots.Has(of) && (!ok || x.start > start) {
			start, ok = x.start, true
		}
	}
	return start, ok
}
