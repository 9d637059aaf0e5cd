package cache

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// An estimate is never too low before counters are halved, and seldom too high.
func TestSketchEstimate(t *testing.T) {
	var s sketch
	s.grow()
	truth := map[uint64]uint32{}
	rng := rand.New(rand.NewPCG(1, 1))
	for sum := 0; sum < 8*sample-4; {
		hash, n := mix(rng.Uint64N(64)), 1+rng.Uint32N(4)
		sum += int(n)
		s.add(hash, n)
		truth[hash] = min(truth[hash]+n, maxCount)
	}
	over := 0
	for hash, n := range truth {
		got := s.estimate(hash)
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
	var s sketch
	for len(s.words) < 1024 {
		s.grow()
	}
	seen := 0
	for key := range uint64(1024) {
		s.add(mix(key), 1)
	}
	for key := range uint64(10_000) {
		if s.estimate(mix(1<<32+key)) > 0 {
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
	var s sketch
	s.grow()
	rng := rand.New(rand.NewPCG(2, 2))
	hashes := make([]uint64, 500)
	for i := range hashes {
		hashes[i] = rng.Uint64()
		s.add(hashes[i], 1+rng.Uint32N(4))
	}
	var before []uint32
	for _, h := range hashes {
		before = append(before, s.estimate(h))
	}
	for range 4 {
		s.grow()
	}
	for i, h := range hashes {
		if got := s.estimate(h); got != before[i] {
			t.Fatalf("estimate %d after growing, was %d", got, before[i])
		}
	}
}

// What is not asked for again is forgotten, after sample per word and count.
func TestSketchForgets(t *testing.T) {
	var s sketch
	s.grow()
	s.add(mix(1), maxCount)
	other := mix(2)
	for i := uint64(3); int(other>>32)&(len(s.words)/8-1) == int(mix(1)>>32)&(len(s.words)/8-1); i++ {
		other = mix(i) // in another block
	}
	for want := maxCount; want > 0; {
		want /= 2
		for range sample * len(s.words) {
			s.add(other, 1)
		}
		if got := s.estimate(mix(1)); got != uint32(want) {
			t.Fatalf("estimate %d, want %d", got, want)
		}
	}
}

func TestGhost(t *testing.T) {
	var g ghost
	g.grow(64)
	if g.take(0, 10) {
		t.Error("an empty ghost has a hash")
	}
	g.put(mix(1))
	if g.take(mix(1), 0) {
		t.Error("a ghost of length 0 has a hash")
	}
	g.put(mix(2))
	if g.take(mix(1), 1) || !g.take(mix(1), 2) {
		t.Error("the last but one is in the last one, or not in the last two")
	}
	if g.take(mix(1), 2) {
		t.Error("a hash was taken twice")
	}
	g.grow(128)
	if !g.take(mix(2), 2) {
		t.Error("growing lost a hash")
	}
}

// A counter that is full stays, and so do those beside it.
func TestSketchCounterIsFull(t *testing.T) {
	for key := range uint64(100) {
		var s sketch
		s.grow()
		s.add(mix(key), maxCount)
		before := slices.Clone(s.words)
		s.add(mix(key), 4)
		if got := s.estimate(mix(key)); got != maxCount || !slices.Equal(s.words, before) {
			t.Fatalf("estimate %d, words %x: want %d, %x", got, s.words, maxCount, before)
		}
	}
}

// The numbers of the puts come again, and no hash with them.
func TestGhostNumbersComeAgain(t *testing.T) {
	var g ghost
	g.grow(64)
	g.puts = 1<<ghostBits - 50
	for key := range uint64(100) {
		g.put(mix(key))
		if !g.take(mix(key), 1) {
			t.Fatalf("put %d: the last one is not known", g.puts)
		}
	}
	g.put(mix(1))
	g.puts += 1<<ghostBits - 1
	if g.take(mix(1), 1<<30) {
		t.Error("what was put a million puts ago is known")
	}
}

func BenchmarkTouch(b *testing.B) {
	e := newEntry(1, 1)
	for b.Loop() {
		e.touch()
	}
}

func BenchmarkTouchParallel(b *testing.B) {
	e := newEntry(1, 1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e.touch()
		}
	})
}

// BenchmarkInsert is an insertion and an eviction, all misses.
func BenchmarkInsert(b *testing.B) {
	p := newPolicy[int, int](100_000, 1)
	entries := make([]entry[int, int], 200_000)
	for i := range entries {
		entries[i].hash, entries[i].cost = mix(uint64(i)), 1
	}
	free := make([]*entry[int, int], 0, len(entries))
	for i := range entries {
		free = append(free, &entries[i])
	}
	i := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		e := free[len(free)-1]
		free = free[:len(free)-1]
		i++
		e.hash = mix(i)
		p.add(e)
		for v := p.evict(); v != nil; v = p.evict() {
			free = append(free, v)
		}
	}
}

// A sketch that shrinks estimates no less than it did, but may take two hashes
// for one; and grows again.
func TestSketchShrinks(t *testing.T) {
	var s sketch
	s.grow()
	s.grow()
	for i := range uint64(20) {
		s.add(mix(i), uint32(i%4))
	}
	s.shrink()
	if len(s.words) != leastLen || s.hand >= len(s.words) {
		t.Fatalf("%d words, the hand at %d", len(s.words), s.hand)
	}
	for i := range uint64(20) {
		if got := s.estimate(mix(i)); got < uint32(i%4) {
			t.Errorf("%d was added %d times and counts %d", i, i%4, got)
		}
	}
}

func TestGhostShrinks(t *testing.T) {
	var g ghost
	g.grow(16)
	g.grow(32)
	for i := range uint64(100) {
		g.put(mix(i))
	}
	g.shrink()
	found := 0
	for i := range uint64(100) {
		if g.take(mix(i), 100) {
			found++
		}
	}
	if len(g.slots) != 16 || found == 0 || found > 16 {
		t.Errorf("%d slots have %d of 100", len(g.slots), found)
	}
}
