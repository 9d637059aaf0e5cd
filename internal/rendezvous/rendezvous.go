// Package rendezvous assigns keys to the members of a fleet by rendezvous hashing, which is
// also called highest random weight (Thaler and Ravishankar, 1998).
//
//	s := rendezvous.New([]string{"http://weir-0:8080", "http://weir-1:8080"})
//	owner := s.Owner("user:7")
//
// Every pair of a key and a member has a weight, and the member with the highest weight owns the
// key. A member that leaves gives only its own keys to the others, in equal parts. A member that
// joins takes an equal part of the keys of each other member.
//
// The weights depend only on the key and on the names of the members: they are the same in all
// processes, on all platforms, and for any order of the names.
package rendezvous

import (
	"cmp"
	"slices"

	"github.com/weir-go/weir/internal/siphash"
)

// The seeds of the hashes are fixed, so that all processes have the same weights.
var (
	memberSeed = siphash.Key{K0: 0x77656972_6d656d62, K1: 0x72656e64_657a766f}
	keySeed    = siphash.Key{K0: 0x77656972_2d6b6579, K1: 0x72656e64_657a766f}
)

// A Set is the members that keys are assigned to. It does not change. The zero Set has no
// members.
type Set struct {
	hashes []uint64 // of the names of the members
}

// New returns the Set of the members with these names. Of members with equal names, only the
// first owns keys.
func New(names []string) *Set {
	s := &Set{hashes: make([]uint64, len(names))}
	for i, name := range names {
		s.hashes[i] = memberSeed.String(name)
	}
	return s
}

// Len returns the number of members.
func (s *Set) Len() int { return len(s.hashes) }

// Owner returns the index of the member that owns a key; -1 if there is no member. It does not
// allocate.
func (s *Set) Owner(key string) int {
	hash := keySeed.String(key)
	owner, most := -1, uint64(0)
	for i, member := range s.hashes {
		if w := weight(hash, member); owner < 0 || w > most {
			owner, most = i, w
		}
	}
	return owner
}

// Ranked appends the indexes of all members to ranks: the owner of the key first, then the
// member that owns the key if the owner leaves, and so on.
func (s *Set) Ranked(key string, ranks []int) []int {
	hash, from := keySeed.String(key), len(ranks)
	for i := range s.hashes {
		ranks = append(ranks, i)
	}
	slices.SortStableFunc(ranks[from:], func(a, b int) int {
		return cmp.Compare(weight(hash, s.hashes[b]), weight(hash, s.hashes[a]))
	})
	return ranks
}

// weight mixes the hashes of a key and of a member, with the finalizer of SplitMix64 (Steele,
// Lea and Flood, 2014; constants of Stafford's variant 13).
func weight(key, member uint64) uint64 {
	x := key ^ member
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
