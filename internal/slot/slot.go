// Package slot maps keys to slots, the units in which the members of a fleet own keys.
//
// The hash has no secret, so that a client finds the owner of a key by itself. Slots do not
// replace fingerprints: see keyedtable, where the slot of a key is a part of its fingerprint.
package slot

import (
	"math/bits"

	"github.com/weir-go/weir/internal/siphash"
)

// Bits is the number of bits of a slot, and Count the number of slots.
const (
	Bits  = 16
	Count = 1 << Bits
)

// Of returns the slot of a text: the low bits of its SipHash-1-3 under the zero key.
func Of(text string) uint16 { return uint16(siphash.Key{}.String(text)) }

// A Set is a set of slots. The zero Set is empty. It is plain data: bit i%64 of word i/64
// is set if slot i is in the Set.
type Set [Count / 64]uint64

// All returns the Set of all slots.
func All() *Set {
	s := new(Set)
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// Has reports whether a slot is in the Set.
func (s *Set) Has(slot uint16) bool { return s[slot/64]>>(slot%64)&1 != 0 }

// Add adds a slot.
func (s *Set) Add(slot uint16) { s[slot/64] |= 1 << (slot % 64) }

// Union adds the slots of other.
func (s *Set) Union(other *Set) {
	for i := range s {
		s[i] |= other[i]
	}
}

// Remove removes the slots of other.
func (s *Set) Remove(other *Set) {
	for i := range s {
		s[i] &^= other[i]
	}
}

// Len returns the number of slots in the Set.
func (s *Set) Len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}
