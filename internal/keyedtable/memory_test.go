//go:build !race

package keyedtable_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
)

// A million keys take 40 bytes each, whatever they are counted in, and hardly any of
// them is forgotten: the hash is random, and a page has more keys than fit in one of some
// fifty such tables.
func TestMemoryOfAMillionKeys(t *testing.T) {
	const keys = 1_000_000
	for _, q := range []keyedtable.Window{{Limit: 10, Period: time.Hour}, {Limit: 10, Period: time.Hour, Sliding: true}} {
		before := heap()
		l := newLimiter(t, q, keyedtable.Config{})
		for i := range keys {
			l.Take(fmt.Sprint("user-", i), 1, 0)
		}
		s := l.Stats()
		if each := float64(heap()-before) / keys; each > 40 || s.Forgotten > 3 {
			t.Errorf("sliding %v: %.1f bytes a key, %d forgotten", q.Sliding, each, s.Forgotten)
		}
		runtime.KeepAlive(l)
	}
}

// counts has the methods of Buckets and Windows that the tests use.
type counts interface {
	SetMemory(memory int) int
	MemoryMost() int
	Stats() keyedtable.Stats
	Snapshot(w io.Writer) error
}

// Memory shrinks and grows again. What fits is kept; a key that is forgotten is never
// given more than it had left.
func TestSetMemory(t *testing.T) {
	const large, small, burst = 16 << 20, 2300 << 10, 10
	for name, begin := range map[string]func() (counts, func(key string, n int) bool){
		"buckets": func() (counts, func(string, int) bool) {
			l, err := keyedtable.NewBuckets[string](gcra.Per(burst, time.Hour, burst), keyedtable.Config{Memory: large})
			testrig.Must(t, err)
			return l, func(key string, n int) bool { return l.Take(key, n).OK }
		},
		"windows": func() (counts, func(string, int) bool) {
			l, err := keyedtable.NewWindows[string](keyedtable.Window{Limit: burst, Period: time.Hour}, keyedtable.Config{Memory: large})
			testrig.Must(t, err)
			return l, func(key string, n int) bool { return l.Take(key, n, 0).OK }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, keys := range []int{1_000, 150_000} {
					l, take := begin()
					for i := range keys {
						if !take(fmt.Sprint(i), burst) {
							t.Fatalf("key %d is denied with a full bucket", i)
						}
					}
					before := l.Stats()
					if most := l.SetMemory(small); most > small || most < small/2 || l.MemoryMost() != most {
						t.Errorf("%d keys: the bound is %d: want at most %d", keys, most, small)
					}
					st := l.Stats()
					if st.Memory > small {
						t.Errorf("%d keys: %d bytes: want at most %d", keys, st.Memory, small)
					}
					if forgot := st.Forgotten - before.Forgotten; (forgot > 0) != (keys > 100_000) {
						t.Errorf("%d keys: %d forgotten", keys, forgot)
					}
					for i := range keys {
						if take(fmt.Sprint(i), 1) {
							t.Fatalf("%d keys: key %d has tokens again", keys, i)
						}
					}
					if err := l.Snapshot(io.Discard); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Hour)
					for i := range keys / 10 {
						if !take(fmt.Sprint("new", i), burst) {
							t.Fatalf("%d keys: a key is denied when all buckets are full again", keys)
						}
					}
					if most := l.SetMemory(large); most > large || most < large/2 {
						t.Errorf("%d keys: the bound is %d: want about %d", keys, most, large)
					}
				}
			})
		})
	}
}

func TestNothingAllocates(t *testing.T) {
	for _, q := range []keyedtable.Window{{Limit: 1 << 40, Period: time.Hour}, {Limit: 1 << 40, Period: time.Hour, Sliding: true}} {
		l := newLimiter(t, q, keyedtable.Config{})
		q.Limit = 1
		full := newLimiter(t, q, keyedtable.Config{})
		full.Take("a", 1, 0)
		var keys []string
		for i := range 100_000 {
			keys = append(keys, fmt.Sprint(i))
		}
		i := 0
		ask := func() {
			full.Take(keys[i%len(keys)], 1, 0)
			full.Take(keys[i%len(keys)], 1, 0)
			i++
		}
		for range 2 * len(keys) { // until the pages are there
			ask()
		}
		at := time.Now()
		for name, f := range map[string]func(){
			"allowed":            func() { l.Take("a", 1, 0) },
			"a limit":            func() { l.Take("a", 1, 1<<41) },
			"denied":             func() { full.Take("a", 1, 0) },
			"too many":           func() { full.Take("b", 2, 0) },
			"a flood of denials": ask,
			"SettleAt":           func() { l.SettleAt("a", at, 1, 2); l.SettleAt("a", at, 2, 1) },
			"Used":               func() { l.Used("a") },
			"Ahead":              func() { full.Ahead("a", 10, 0) },
		} {
			if n := testing.AllocsPerRun(100, f); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	}
}
