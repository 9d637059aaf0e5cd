//go:build !race

package keyed_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// keysAKibibyte is about the number of keys that have a place in a kibibyte.
const keysAKibibyte = 60

// However many keys come, the memory for them stays within its bound.
func TestFloodStaysInMemory(t *testing.T) {
	const memory = 1 << 20
	const keys = 1_000_000 // nearly what 10⁸ are to 64 MiB
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := uint64(0)
	l := newLimiter[uint64](t, gcra.Per(1, time.Hour, 2), keyed.Config{Memory: memory})
	allowed := 0
	for i := range uint64(keys) {
		if l.Allow(i) {
			allowed++
		}
		if i%(keys/20) == 0 {
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc-before.HeapAlloc)
		}
	}
	if s := l.Stats(); s.Memory > memory || s.Memory < memory*9/10 {
		t.Errorf("%d bytes: want up to %d", s.Memory, memory)
	}
	// As much again as is between 64 and 80 MiB, for all that is beside it.
	if most > memory*5/4 {
		t.Errorf("%d bytes of heap: want at most %d", most, memory*5/4)
	}
	// Each place is good for a burst; none is good for two.
	if places := memory / 16; allowed < keysAKibibyte*memory>>10*8/10 || allowed > 2*places {
		t.Errorf("%d allowed: want about one or two for each of %d places", allowed, places)
	}
	runtime.KeepAlive(l)
}

// No key gets more by being forgotten: a key that asks whenever it can gets at
// most its burst and what comes in, whatever else asks meanwhile.
func TestFloodBuysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const burst, greedy = 5, 50
		l := newLimiter[int](t, gcra.Per(1, time.Minute, burst), keyed.Config{Memory: keyed.MinMemory})
		f := flood{l: l}
		var got [greedy]int
		for minute := range 10 {
			for range 10 {
				for key := range got {
					for l.Allow(key) {
						got[key]++
					}
				}
				f.come(3 * keysAKibibyte * keyed.MinMemory >> 10) // more than there is room for
				time.Sleep(6 * time.Second)
			}
			for key, n := range got {
				if n > burst+minute+1 {
					t.Fatalf("key %d: %d in %d minutes: want at most %d", key, n, minute+1, burst+minute+1)
				}
			}
		}
		if s := l.Stats(); s.Forgotten == 0 {
			t.Error("nobody was forgotten: the flood is too small")
		}
	})
}

// While fresh keys come at nine tenths of the rate that refills, memory is full
// and keys are forgotten, but an honest key lacks one token at most: with a
// burst of two it is never denied.
func TestHonestKeysInAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const memory, rate, honest, step = 128 << 10, 10, 40, 10 * time.Millisecond
		l := newLimiter[int](t, perSecond(rate, 2), keyed.Config{Memory: memory})
		f := flood{l: l}
		perStep := memory / 4160 * 252 * rate / 100 // as many as refill, if all places are taken
		asked, denied := 0, 0
		for i := range 500 {
			f.come(perStep * 9 / 10)
			if i%20 == 0 { // five a second: half of what is allowed
				for key := range honest {
					asked++
					if !l.Allow(key) {
						denied++
					}
				}
			}
			time.Sleep(step)
		}
		s := l.Stats()
		if denied > 0 || s.Forgotten == 0 {
			t.Errorf("%d of %d denied, %d forgotten: want none denied, though memory is full", denied, asked, s.Forgotten)
		}
	})
}

// When the flood is over, all is as before.
func TestAfterTheFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[int](t, perSecond(1, 4), keyed.Config{Memory: keyed.MinMemory})
		f := flood{l: l}
		for range 20 {
			f.come(20_000)
			time.Sleep(100 * ms)
		}
		time.Sleep(4 * time.Second)
		for key := range 1000 {
			if d := l.Take(key, 4); !d.OK {
				t.Fatalf("key %d: %+v: want it full", key, d)
			}
		}
	})
}

// BenchmarkFlood asks for keys that come once each, when memory is full.
func BenchmarkFlood(b *testing.B) {
	l := newLimiter[uint64](b, gcra.Per(1, 4*time.Second, 10), keyed.Config{Memory: 4 << 20})
	key := uint64(0)
	for range 1_000_000 {
		key++
		l.Allow(key)
	}
	b.ReportAllocs()
	for b.Loop() {
		key++
		l.Allow(key)
	}
}
