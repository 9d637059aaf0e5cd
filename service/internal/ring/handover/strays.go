package handover

import (
	"time"

	"github.com/weir-go/weir/internal/slot"
)

// maxStray is for how long a node leaves slots that it decides to a member that has claimed them. Until then, members agree on
// the owner.
const maxStray = time.Second

// Strays are slots that a node has given up lately for claims of others.
type Strays struct {
	slots *slot.Set // nil if there are none
	last  time.Duration
}

// Add adds slots.
func (s *Strays) Add(slots *slot.Set, now time.Duration) {
	if s.last = now; s.slots == nil {
		s.slots = new(slot.Set)
	}
	s.slots.Union(slots)
}

// Take returns the slots that the node decides all the same, a while after it has given the last ones up: the members that have
// claimed them were wrong.
func (s *Strays) Take(decides func() *slot.Set, now time.Duration) *slot.Set {
	if s.slots == nil || now-s.last < maxStray {
		return new(slot.Set)
	}
	stray := Common(s.slots, decides())
	s.slots = nil
	return stray
}
