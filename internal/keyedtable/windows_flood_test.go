//go:build !race

package keyedtable_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
)

// keysAKibibyte is about the number of keys that have a place in a kibibyte.
const keysAKibibyte = 40

// A flood is many keys that come once each.
type flood struct {
	l    *keyedtable.Windows[string]
	next int
}

func (f *flood) come(n int) (allowed int) {
	for range n {
		f.next++
		if f.l.Take(fmt.Sprint("flood", f.next), 1, 0).OK {
			allowed++
		}
	}
	return allowed
}

// However many keys come, the memory for them stays within its bound.
func TestFloodStaysInMemory(t *testing.T) {
	const memory = 1 << 20
	const keys = 500_000
	l := newLimiter(t, keyedtable.Window{Limit: 1, Period: time.Hour}, keyedtable.Config{Memory: memory})
	f := flood{l: l}
	before, most, allowed := heap(), int64(0), 0
	for range 20 {
		allowed += f.come(keys / 20)
		most = max(most, heap()-before)
	}
	if s := l.Stats(); s.Memory > memory || s.Memory < memory*9/10 {
		t.Errorf("%d bytes: want up to %d", s.Memory, memory)
	}
	// As much again as is between 64 and 80 MiB, for all that is beside it.
	if most > memory*5/4 {
		t.Errorf("%d bytes of heap: want at most %d", most, memory*5/4)
	}
	// Each place is good for the limit; none is good for it twice.
	if places := memory / 24; allowed < keysAKibibyte*memory>>10*8/10 || allowed > 2*places {
		t.Errorf("%d allowed: want about one or two for each of %d places", allowed, places)
	}
	runtime.KeepAlive(l)
}

// No key gets more by being forgotten: keys that ask whenever they can get what
// windows promise, whatever else asks meanwhile.
func TestFloodBuysNothing(t *testing.T) {
	for _, q := range []keyedtable.Window{{Limit: 5, Period: time.Minute}, {Limit: 5, Period: time.Minute, Sliding: true}} {
		synctest.Test(t, func(t *testing.T) {
			const greedy, step = 50, 6 * time.Second
			l := newLimiter(t, q, keyedtable.Config{Memory: keyedtable.MinMemory})
			f := flood{l: l}
			var got [greedy][]int // in each step
			for range 60 {
				for key := range got {
					n := 0
					for l.Take(fmt.Sprint(key), 1, 0).OK {
						n++
					}
					got[key] = append(got[key], n)
				}
				f.come(keysAKibibyte * keyedtable.MinMemory >> 10 / 3)
				time.Sleep(step)
			}
			for key, steps := range got {
				for i := range steps {
					seen := 0
					for j, n := range steps[i:min(i+10, len(steps))] {
						d := float64(j) * step.Minutes()
						most := 2 * float64(q.Limit)
						if q.Sliding {
							most = float64(q.Limit) * (1 + d)
						}
						if seen += n; float64(seen) > most+1e-6 {
							t.Fatalf("key %d, sliding %v: %d in %d steps: want at most %v", key, q.Sliding, seen, j+1, most)
						}
					}
				}
			}
			if s := l.Stats(); s.Forgotten == 0 {
				t.Error("nobody was forgotten: the flood is too small")
			}
		})
	}
}

// While the keys of a period, or two, are seven tenths of the places, an honest
// key lacks one event at most: with a limit of two, of which it uses one, it is
// never denied.
func TestHonestKeysInAFlood(t *testing.T) {
	for _, q := range []keyedtable.Window{{Limit: 2, Period: time.Second}, {Limit: 2, Period: time.Second, Sliding: true}} {
		synctest.Test(t, func(t *testing.T) {
			const memory, honest, step = 128 << 10, 40, 10 * time.Millisecond
			l := newLimiter(t, q, keyedtable.Config{Memory: memory})
			f := flood{l: l}
			perStep := memory >> 10 * keysAKibibyte * 7 / 10 / 100 // of a hundred a period
			every := 110                                           // steps between the asks of a key
			if q.Sliding {
				perStep, every = perStep/2, 210
			}
			asked, denied := 0, 0
			for i := range 3000 {
				f.come(perStep)
				for key := range honest {
					if (i+key*7)%every != 0 {
						continue
					}
					if asked++; !l.Take(fmt.Sprint(key), 1, 0).OK {
						denied++
					}
				}
				time.Sleep(step)
			}
			s := l.Stats()
			if denied > 0 || s.Forgotten == 0 {
				t.Errorf("%d of %d denied, %d forgotten: want none denied, though some are forgotten", denied, asked, s.Forgotten)
			}
		})
	}
}

// When the flood is over, all is as before.
func TestAfterTheFlood(t *testing.T) {
	for _, q := range []keyedtable.Window{perSecond(4), sliding(perSecond(4))} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, q, keyedtable.Config{Memory: keyedtable.MinMemory})
			f := flood{l: l}
			for range 20 {
				f.come(10_000)
				time.Sleep(100 * ms)
			}
			time.Sleep(2 * time.Second)
			for key := range 1000 {
				if d := l.Take(fmt.Sprint(key), 4, 0); !d.OK {
					t.Fatalf("key %d: %+v: want nothing used", key, d)
				}
			}
		})
	}
}

// Places that count nothing any more are as good as new: keys that come one
// after the other take no more memory than those of one period.
func TestPlacesAreTakenAgain(t *testing.T) {
	for _, q := range []keyedtable.Window{perSecond(4), sliding(perSecond(4))} {
		synctest.Test(t, func(t *testing.T) {
			const memory = 16 << 20
			const keys = memory >> 10 * keysAKibibyte / 16
			l := newLimiter(t, q, keyedtable.Config{Memory: memory})
			f := flood{l: l}
			f.come(keys)
			first := l.Stats().Memory
			for range 10 {
				time.Sleep(2 * time.Second)
				f.come(keys)
			}
			if s := l.Stats(); s.Memory > first*5/4 || s.Forgotten > 0 {
				t.Errorf("%+v: want not much more than %d bytes, and nobody forgotten", s, first)
			}
		})
	}
}
