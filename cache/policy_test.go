//go:build !race

package cache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-go/weir/internal/sketch"
)

// The newest is there to be read, however small the cache, if it fits at all.
func TestNewestStays(t *testing.T) {
	for _, bound := range []int64{1, 2, 3, 10, 1000} {
		h := hold(t, bound)
		for key := range 3000 {
			h.ask(key%1500, 1+int64(key)%min(bound, 8)) // none is huge
			if h.byKey[key%1500] == nil {
				t.Fatalf("bound %d: %d was evicted by its own insertion", bound, key)
			}
			h.ask(key%7, 1)
		}
	}
}

// The window grows while keys are popular for a short while, and shrinks when
// some are popular for good.
func TestWindowFollows(t *testing.T) {
	const size = 1000
	h := hold(t, size)
	rng := rand.New(rand.NewPCG(4, 4))
	zipf := rand.NewZipf(rng, 1.01, 1, 50_000)
	for round := range 3 {
		for i := range 100_000 {
			h.p.add1(h, 1_000_000*(round+1)+i/3+rng.IntN(600))
		}
		if h.p.share < size/2 {
			t.Errorf("round %d: a window of %d of %d", round, h.p.share, size)
		}
		for range 100_000 {
			h.p.add1(h, int(zipf.Uint64()))
		}
		if h.p.share > size/3 {
			t.Errorf("round %d: a window of %d of %d for what does not change", round, h.p.share, size)
		}
	}
	h.check()
}

// What is replaced keeps its place in the queue and its hits.
func TestReplace(t *testing.T) {
	h := hold(t, 10)
	for key := range 10 {
		h.ask(key, 1)
	}
	order := func() (keys []int) {
		for e := h.p.main.front(); e != &h.p.main.root; e = e.next {
			keys = append(keys, e.key)
		}
		return keys
	}
	before := order()
	for _, key := range []int{before[0], before[4], before[len(before)-1], 9} {
		h.ask(key, 1)
		h.replace(key, 1)
		if h.byKey[key].hits.Load() != 1 {
			t.Errorf("%d lost its hit", key)
		}
	}
	if after := order(); !slices.Equal(after, before) {
		t.Errorf("order %v, was %v", after, before)
	}
	if got := h.replace(before[2], 3); len(got) != 2 {
		t.Errorf("cost 3 for cost 1 in a full cache evicted %v, want two", got)
	}
}

func TestRemove(t *testing.T) {
	h := hold(t, 10)
	h.ask(1, 1)
	for range 3 {
		h.ask(1, 1)
	}
	e := h.byKey[1]
	h.remove(1)
	if got := h.p.sketch.Estimate(e.hash); got != 4 {
		t.Errorf("a key asked for four times and removed counts %d", got)
	}
}

// Keys that come once push out nothing that is asked for, however many come.
func TestFlood(t *testing.T) {
	h := hold(t, 1000)
	rng := rand.New(rand.NewPCG(1, 1))
	hot := func() int { return rng.IntN(900) }
	for range 20_000 {
		h.ask(hot(), 1)
	}
	hits, asked := 0, 0
	for once := range 200_000 {
		h.p.add1(h, 1_000_000+once)
		if once%4 == 0 {
			key := hot()
			asked++
			if h.byKey[key] != nil {
				hits++
			}
			h.p.add1(h, key)
		}
	}
	h.check()
	if ratio := float64(hits) / float64(asked); ratio < 0.95 {
		t.Errorf("hit ratio %.3f of 900 keys in a cache of 1000 beside a flood", ratio)
	}
}

// If all were hit, an eviction looks at a few of them only.
func TestBoundedWork(t *testing.T) {
	h := hold(t, 10_000)
	for key := range 10_000 {
		h.p.add1(h, key)
	}
	for _, e := range h.byKey {
		for range maxHits + 1 {
			e.touch()
		}
	}
	h.p.add1(h, -1)
	looked := 0
	for _, e := range h.byKey {
		if e.key >= 0 && e.hits.Load() == 0 {
			looked++
		}
	}
	if looked > chances+4 {
		t.Errorf("an insertion looked at %d entries", looked)
	}
	h.check()
}

// The same calls evict the same.
func TestDeterminism(t *testing.T) {
	play := func() (evicted []int) {
		h := hold(t, 50)
		rng := rand.New(rand.NewPCG(2, 2))
		for range 10_000 {
			evicted = append(evicted, h.ask(int(100*rng.ExpFloat64()), 1)...)
		}
		for i := range 10_000 { // a loop, where some are admitted by luck
			evicted = append(evicted, h.ask(1000+i%60, 1)...)
		}
		return evicted
	}
	if !slices.Equal(play(), play()) {
		t.Error("two runs differ")
	}
}

// A clock: what was hit since it came to the front goes to the back, once for
// all its hits, and is known for them.
func TestSecondChance(t *testing.T) {
	const size, unused = 20, 8
	h := hold(t, size)
	for key := range size {
		h.ask(key, 1)
	}
	for key := range size {
		if key != unused {
			h.ask(key, 1)
		}
	}
	if got := h.ask(100, 1); !slices.Equal(got, []int{unused}) {
		t.Errorf("evicted %v: want %d, which alone was not hit", got, unused)
	}
	for key := range unused {
		if e := h.byKey[key]; e == nil || e.hits.Load() != 0 || h.p.sketch.Estimate(e.hash) != 2 {
			t.Errorf("%d was passed: want it to have no hits any more, estimate 2", key)
		}
	}
}

// The entry that was asked for more often recently stays, in main.
func TestContest(t *testing.T) {
	for _, popular := range []bool{false, true} {
		h := hold(t, 10)
		for key := range 10 {
			h.ask(key, 1)
		}
		oldest, candidate := h.p.main.front(), h.p.window.front()
		if popular { // has come and gone before
			h.p.sketch.Add(candidate.hash, 3)
		}
		want, stays := candidate, oldest
		if popular {
			want, stays = oldest, candidate
		}
		if got := h.ask(100, 1); !slices.Equal(got, []int{want.key}) || stays.queue != &h.p.main {
			t.Errorf("popular %v: evicted %v: want %d, and %d in main", popular, got, want.key, stays.key)
		}
	}
}

// No key keeps all others out for ever, even if it seems to be popular: of
// those asked for more than a few times, some are admitted.
func TestLuck(t *testing.T) {
	for _, asked := range []uint32{warm - 1, warm} {
		h, admitted := hold(t, 10), 0
		for key := range 10 {
			h.ask(key, 1)
		}
		for key := 100; key < 100+40*luck; key++ {
			for e := h.p.main.front(); e != &h.p.main.root; e = e.next {
				h.p.sketch.Add(e.hash, sketch.MaxCount)
			}
			c := h.p.window.front()
			if n := h.p.sketch.Estimate(c.hash); n < asked {
				h.p.sketch.Add(c.hash, asked-n)
			} else if n > asked {
				h.p.sketch = sketch.Sketch{}
				h.p.sketch.Grow()
				continue
			}
			h.ask(key, 1)
			if c.queue == &h.p.main {
				admitted++
			}
		}
		if least := 10; asked < warm && admitted > 0 || asked == warm && (admitted < least || admitted > 8*least) {
			t.Errorf("%d of %d that were asked for %d times were admitted", admitted, 40*luck, asked)
		}
	}
}

// A key is known as asked for once it has left the window, whichever way.
func TestLeavingTheWindowCounts(t *testing.T) {
	h := hold(t, 100)
	for key := range 40 { // before any counter is halved
		h.ask(key, 1)
	}
	for key, e := range h.byKey {
		if got, in := h.p.sketch.Estimate(e.hash), e.queue == &h.p.window; in != (got == 0) {
			t.Errorf("%d: estimate %d, in the window: %v", key, got, in)
		}
	}
}

// What count returns includes the hits it enters, up to what a counter holds.
func TestCount(t *testing.T) {
	h := hold(t, 100)
	for key := range 3 {
		h.ask(key, 1)
	}
	e := h.p.main.front()
	for _, want := range []uint32{1 + 3, 1 + 2*3, 1 + 3*3, 1 + 4*3, sketch.MaxCount} {
		for range maxHits + 2 { // more than an entry tells
			e.touch()
		}
		if e.hits.Load() != maxHits {
			t.Errorf("%d hits: want %d", e.hits.Load(), maxHits)
		}
		if before, hit := h.p.count(e); before != want || !hit || h.p.sketch.Estimate(e.hash) != want {
			t.Errorf("%d, %v, estimate %d: want %d", before, hit, h.p.sketch.Estimate(e.hash), want)
		}
	}
	if before, hit := h.p.count(e); before != sketch.MaxCount || hit {
		t.Errorf("%d, %v: want no hit", before, hit)
	}
}

// The share of the window moves by an entry, for what a queue lost lately: not
// for what it lost long ago; and it leaves room for main.
func TestShare(t *testing.T) {
	const n, cost = 1600, 1000
	const bound = n * cost
	h := hold(t, bound)
	if h.p.share != bound/least {
		t.Errorf("a share of %d to begin with: want %d", h.p.share, bound/least)
	}
	for key := range n {
		h.ask(key, cost)
	}
	hash := mix(1 << 40)
	for name, tt := range map[string]struct {
		lost *sketch.Ghost
		step int64
	}{"window": {&h.p.fromWindow, cost}, "main": {&h.p.fromMain, -cost}} {
		for _, ago := range []int{1, n / reach, n/reach + 1} {
			h.p.share = bound / 2
			tt.lost.Put(hash)
			for i := range ago - 1 {
				for other := uint64(i); ; other += 1 << 20 { // in another slot
					if mix(other)>>32%64 != hash>>32%64 {
						tt.lost.Put(mix(other))
						break
					}
				}
			}
			h.p.adapt(hash)
			want := int64(bound/2) + tt.step
			if ago > n/reach {
				want = bound / 2
			}
			if h.p.share != want {
				t.Errorf("lost by the %s %d evictions ago: a share of %d: want %d", name, ago, h.p.share, want)
			}
		}
		for range 2 * n {
			tt.lost.Put(hash)
			h.p.adapt(hash)
		}
		want := int64(0)
		if tt.step > 0 {
			want = bound - bound/least
		}
		if h.p.share != want {
			t.Errorf("the %s lost all the time: a share of %d: want %d", name, h.p.share, want)
		}
	}
}

// What the policy is chosen for, as a floor: hits in percent.
func TestHitRatio(t *testing.T) {
	const size, requests = 1000, 300_000
	rng := rand.New(rand.NewPCG(3, 3))
	zipf := rand.NewZipf(rng, 1.01, 1, 50_000)
	for _, tt := range []struct {
		name  string
		next  func(i int) int
		floor float64
	}{
		{"loop over twice the size", func(i int) int { return i % (2 * size) }, 45}, // LRU: 0, optimum: 50
		{"zipf", func(int) int { return int(zipf.Uint64()) }, 60},                   // LRU: 54
		{"zipf with scans", func(i int) int { // LRU: 36
			if i/5000%3 == 2 {
				return 1_000_000 + i
			}
			return int(zipf.Uint64())
		}, 39},
		// LRU: 63, LFU: nearly 0
		{"three times soon, then never", func(i int) int { return i/3 + rng.IntN(600) }, 60},
	} {
		h, hits := hold(t, size), 0
		for i := range requests {
			key := tt.next(i)
			if h.byKey[key] != nil {
				hits++
			}
			h.p.add1(h, key)
		}
		h.check()
		if got := 100 * float64(hits) / requests; got < tt.floor {
			t.Errorf("%s: %.1f %% hits, want %.0f", tt.name, got, tt.floor)
		} else {
			t.Logf("%s: %.1f %%", tt.name, got)
		}
	}
}

// Whatever is called, what check tests holds.
func FuzzPolicy(f *testing.F) {
	f.Add(int64(1), []byte{0, 1, 0, 2, 1, 1, 2, 2})
	f.Add(int64(10), []byte("a quick brown fox jumps over a lazy dog, and again over it"))
	f.Add(int64(100), slices.Repeat([]byte{0, 255, 7, 3, 9, 30, 60, 90, 120, 0}, 100))
	f.Fuzz(func(t *testing.T, bound int64, ops []byte) {
		if bound < 1 || bound > MaxBytes {
			return
		}
		h := hold(t, bound)
		for i := 0; i+1 < len(ops); i += 2 {
			key, cost := int(ops[i]>>2), min(int64(ops[i+1]), bound)
			if ops[i+1] == 255 {
				cost = bound
			}
			switch there := h.byKey[key] != nil; {
			case there && ops[i]&3 == 1:
				h.replace(key, cost)
			case there && ops[i]&3 == 2:
				h.remove(key)
			default:
				h.ask(key, cost)
			}
		}
	})
}

// Values that take a large part of the bound, and are asked for once, push out
// little of what is popular.
func TestHugeAskedForOnce(t *testing.T) {
	const size, n = 1000, 100_000
	ratio := func(cost int64) float64 {
		h := hold(t, size)
		rng := rand.New(rand.NewPCG(5, 5))
		zipf := rand.NewZipf(rng, 1.1, 1, 20_000)
		hits := 0
		for i := range n {
			key := int(zipf.Uint64())
			if h.byKey[key] != nil {
				hits++
			}
			h.p.add1(h, key)
			if cost > 0 && i%100 == 0 {
				e := newEntry(1_000_000+i, cost)
				h.byKey[e.key] = e
				h.p.add(e)
				for v := h.p.evict(); v != nil; v = h.p.evict() {
					delete(h.byKey, v.key)
				}
			}
		}
		return float64(hits) / n
	}
	alone := ratio(0)
	for _, cost := range []int64{50, 100, 300, 1000} {
		if got := ratio(cost); got < alone-0.05 {
			t.Errorf("with values of %d of %d: hit ratio %.3f, without %.3f", cost, size, got, alone)
		}
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
