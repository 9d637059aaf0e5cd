// Package rendezvous assigns the slots of keys (package slot) to the members of a fleet by
// rendezvous hashing, which is also called highest random weight (Thaler and Ravishankar, 1998).
//
//	s := rendezvous.New([]string{"http://weir-0:8080", "http://weir-1:8080"})
//	owner := s.Owner("user:7")
//
// Every pair of a slot and a member has a weight, and the member with the highest weight owns the
// slot. A member that leaves gives only its own slots to the others, in equal parts. A member that
// joins takes an equal part of the slots of each other member.
//
// The weights depend only on the slot and on the names of the members: they are the same in all
// processes, on all platforms, and for any order of the names.
package rendezvous

import (
	"cmp"
	"slices"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
)

// seed is that of the hashes of names. It is fixed, so that all processes have the same weights.
var seed = siphash.Key{K0: 0x77656972_6d656d62, K1: 0x72656e64_657a766f}

// A Set is the members that own slots. It does not change. The zero Set has no members.
type Set struct {
	hashes []uint64 // of the names of the members
}

// New returns the Set of the members with these names. Of members with equal names, only the
// first owns slots.
func New(names []string) *Set {
	s := &Set{hashes: make([]uint64, len(names))}
	for i, name := range names {
		s.hashes[i] = seed.String(name)
	}
	return s
}

// Len returns the number of members.
func (s *Set) Len() int { return len(s.hashes) }

// Owner returns the index of the member that owns the slot of a key; -1 if there is no member. It
// does not allocate.
func (s *Set) Owner(key string) int { return s.OwnerOf(slot.Of(key)) }

// OwnerOf returns the index of the member that owns a slot; -1 if there is no member. It does not
// allocate.
func (s *Set) OwnerOf(slot uint16) int {
	hash := spread(slot)
	owner, most := -1, uint64(0)
	for i, member := range s.hashes {
		if w := mix(hash ^ member); owner < 0 || w > most {
			owner, most = i, w
		}
	}
	return owner
}

// Ranked appends the indexes of all members to ranks: the owner of the slot first, then the
// member that owns it if the owner leaves, and so on.
func (s *Set) Ranked(slot uint16, ranks []int) []int {
	hash, from := spread(slot), len(ranks)
	for i := range s.hashes {
		ranks = append(ranks, i)
	}
	slices.SortStableFunc(ranks[from:], func(a, b int) int {
		return cmp.Compare(mix(hash^s.hashes[b]), mix(hash^s.hashes[a]))
	})
	return ranks
}

// spread returns the hash of a slot.
func spread(slot uint16) uint64 { return mix((uint64(slot) + 1) * 0x9e3779b97f4a7c15) }

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014; constants of Stafford's variant
// 13). The mix of the hashes of a slot and of a member is their weight.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
