package sketch

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// An estimate is never too low before counters are halved, and seldom too high.
func TestSketchEstimate(t *testing.T) {
	var s Sketch
	s.Grow()
	truth := map[uint64]uint32{}
	rng := rand.New(rand.NewPCG(1, 1))
	for sum := 0; sum < 8*sample-4; {
		hash, n := mix(rng.Uint64N(64)), 1+rng.Uint32N(4)
		sum += int(n)
		s.Add(hash, n)
		truth[hash] = min(truth[hash]+n, MaxCount)
	}
	over := 0
	for hash, n := range truth {
		got := s.Estimate(hash)
		if got < n {
			t.Errorf("%x was added %d times, estimate %d", hash, n, got)
		}
		if got > n {
			over++
		}
	}
	if over > len(truth)/20 {
		t.Errorf("%d of %d estimates are too high", over, len(truth))
	}
}

// With a key per word, few of those never seen seem to have been.
func TestSketchCollisions(t *testing.T) {
	var s Sketch
	for len(s.words) < 1024 {
		s.Grow()
	}
	seen := 0
	for key := range uint64(1024) {
		s.Add(mix(key), 1)
	}
	for key := range uint64(10_000) {
		if s.Estimate(mix(1<<32+key)) > 0 {
			seen++
		}
	}
	// 8 keys in a block, in rows of 32 counters: (1 - (31/32)^8)^4 = 0.25 %.
	if seen > 60 {
		t.Errorf("%d of 10000 keys were never seen, and seem to have been", seen)
	}
}

// Growing loses nothing.
func TestSketchGrow(t *testing.T) {
	var s Sketch
	s.Grow()
	rng := rand.New(rand.NewPCG(2, 2))
	hashes := make([]uint64, 500)
	for i := range hashes {
		hashes[i] = rng.Uint64()
		s.Add(hashes[i], 1+rng.Uint32N(4))
	}
	var before []uint32
	for _, h := range hashes {
		before = append(before, s.Estimate(h))
	}
	for range 4 {
		s.Grow()
	}
	for i, h := range hashes {
		if got := s.Estimate(h); got != before[i] {
			t.Fatalf("estimate %d after growing, was %d", got, before[i])
		}
	}
}

// What is not asked for again is forgotten, after sample per word and count.
func TestSketchForgets(t *testing.T) {
	var s Sketch
	s.Grow()
	s.Add(mix(1), MaxCount)
	other := mix(2)
	for i := uint64(3); int(other>>32)&(len(s.words)/8-1) == int(mix(1)>>32)&(len(s.words)/8-1); i++ {
		other = mix(i) // in another block
	}
	for want := MaxCount; want > 0; {
		want /= 2
		for range sample * len(s.words) {
			s.Add(other, 1)
		}
		if got := s.Estimate(mix(1)); got != uint32(want) {
			t.Fatalf("estimate %d, want %d", got, want)
		}
	}
}

func TestGhost(t *testing.T) {
	var g Ghost
	g.Grow(64)
	if g.Take(0, 10) {
		t.Error("an empty ghost has a hash")
	}
	g.Put(mix(1))
	if g.Take(mix(1), 0) {
		t.Error("a ghost of length 0 has a hash")
	}
	g.Put(mix(2))
	if g.Take(mix(1), 1) || !g.Take(mix(1), 2) {
		t.Error("the last but one is in the last one, or not in the last two")
	}
	if g.Take(mix(1), 2) {
		t.Error("a hash was taken twice")
	}
	g.Grow(128)
	if !g.Take(mix(2), 2) {
		t.Error("growing lost a hash")
	}
}

// A counter that is full stays, and so do those beside it.
func TestSketchCounterIsFull(t *testing.T) {
	for key := range uint64(100) {
		var s Sketch
		s.Grow()
		s.Add(mix(key), MaxCount)
		before := slices.Clone(s.words)
		s.Add(mix(key), 4)
		if got := s.Estimate(mix(key)); got != MaxCount || !slices.Equal(s.words, before) {
			t.Fatalf("estimate %d, words %x: want %d, %x", got, s.words, MaxCount, before)
		}
	}
}

// The numbers of the puts come again, and no hash with them.
func TestGhostNumbersComeAgain(t *testing.T) {
	var g Ghost
	g.Grow(64)
	g.puts = 1<<ghostBits - 50
	for key := range uint64(100) {
		g.Put(mix(key))
		if !g.Take(mix(key), 1) {
			t.Fatalf("put %d: the last one is not known", g.puts)
		}
	}
	g.Put(mix(1))
	g.puts += 1<<ghostBits - 1
	if g.Take(mix(1), 1<<30) {
		t.Error("what was put a million puts ago is known")
	}
}

// A sketch that shrinks estimates no less than it did, but may take two hashes
// for one; and grows again.
func TestSketchShrinks(t *testing.T) {
	var s Sketch
	s.Grow()
	s.Grow()
	for i := range uint64(20) {
		s.Add(mix(i), uint32(i%4))
	}
	s.Shrink()
	if len(s.words) != MinWords || s.hand >= len(s.words) {
		t.Fatalf("%d words, the hand at %d", len(s.words), s.hand)
	}
	for i := range uint64(20) {
		if got := s.Estimate(mix(i)); got < uint32(i%4) {
			t.Errorf("%d was added %d times and counts %d", i, i%4, got)
		}
	}
}

func TestGhostShrinks(t *testing.T) {
	var g Ghost
	g.Grow(16)
	g.Grow(32)
	for i := range uint64(100) {
		g.Put(mix(i))
	}
	g.Shrink()
	found := 0
	for i := range uint64(100) {
		if g.Take(mix(i), 100) {
			found++
		}
	}
	if len(g.slots) != 16 || found == 0 || found > 16 {
		t.Errorf("%d slots have %d of 100", len(g.slots), found)
	}
}

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
