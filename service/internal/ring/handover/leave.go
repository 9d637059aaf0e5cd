package handover

import "github.com/weir-go/weir/internal/slot"

// A Leave is the end of a member.
type Leave struct {
	rest slot.Set      // slots that were not handed over yet
	done chan struct{} // closed by End
	over bool
}

// NewLeave returns the end of a member that decides about slots.
func NewLeave(slots *slot.Set) *Leave { return &Leave{rest: *slots, done: make(chan struct{})} }

// Nothing reports whether there are no slots to hand over.
func (l *Leave) Nothing() bool { return l.rest.Len() == 0 }

// Given says that slots were handed over.
func (l *Leave) Given(slots *slot.Set) {
	if l.rest.Remove(slots); l.Nothing() {
		l.End()
	}
}

// End says that no more slots are handed over.
func (l *Leave) End() {
	if !l.over {
		l.over = true
		close(l.done)
	}
}

// Done is closed when the last slots were handed over, or no member can take the rest.
func (l *Leave) Done() <-chan struct{} { return l.done }
