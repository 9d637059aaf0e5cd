// Package handover keeps account of the state of slots that moves from owner to owner: what this node has given, and
// what no member has.
package handover

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

const (
	// keepFor is for how long the state of slots is kept that was handed over.
	keepFor = 10 * time.Minute
	// maxKept bounds it, in bytes.
	maxKept = 8 << 20
)

// A State is the state of slots that was handed over.
type State struct {
	slots  slot.Set
	chunks [][]byte
	bytes  int
	until  time.Duration
}

// NewState returns a State without chunks.
func NewState(slots *slot.Set) State { return State{slots: *slots} }

// Add adds a copy of a chunk.
func (s *State) Add(chunk []byte) {
	if s.bytes += len(chunk); s.bytes <= maxKept {
		s.chunks = append(s.chunks, slices.Clone(chunk))
	}
}

// Kept are the last States. If the new owner of slots is lost soon, this node
// decides by their State again, so that a member that comes and goes costs one burst, and not one each time.
type Kept struct{ states []State }

// Keep keeps a state, and drops the oldest ones that there is no room for.
func (k *Kept) Keep(state State, now time.Duration) {
	if state.bytes > maxKept || len(state.chunks) == 0 {
		return
	}
	state.until = now + keepFor
	k.states = append(k.states, state)
	bytes := 0
	for i := len(k.states) - 1; i >= 0; i-- {
		if bytes += k.states[i].bytes; bytes > maxKept {
			k.states = slices.Delete(k.states, 0, i+1)
			break
		}
	}
}

// Recall takes the States with some of these slots out, and passes their chunks to use.
func (k *Kept) Recall(slots *slot.Set, now time.Duration, use func(chunk []byte) error) {
	k.states = slices.DeleteFunc(k.states, func(s State) bool {
		if s.until < now {
			return true
		}
		if Common(&s.slots, slots).Len() == 0 {
			return false
		}
		for _, chunk := range s.chunks {
			_ = use(chunk) // without it, buckets are full
		}
		return true
	})
}

// Forget drops the state of slots: their owner has handed it over.
func (k *Kept) Forget(slots *slot.Set) {
	for i := range k.states {
		k.states[i].slots.Remove(slots)
	}
	k.states = slices.DeleteFunc(k.states, func(s State) bool { return s.slots.Len() == 0 })
}
