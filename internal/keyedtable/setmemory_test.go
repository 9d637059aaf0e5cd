package keyedtable_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
)

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
			if err != nil {
				t.Fatal(err)
			}
			return l, func(key string, n int) bool { return l.Take(key, n).OK }
		},
		"windows": func() (counts, func(string, int) bool) {
			l, err := keyedtable.NewWindows[string](keyedtable.Window{Limit: burst, Period: time.Hour}, keyedtable.Config{Memory: large})
			if err != nil {
				t.Fatal(err)
			}
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

// Memory can change under load.
func TestSetMemoryUnderLoad(t *testing.T) {
	const burst = 3
	l, err := keyedtable.NewBuckets[int](gcra.Per(0, 0, burst), keyedtable.Config{Memory: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	took := map[int]int{}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 20_000 {
				key := (i*7 + g) % 30_000
				if l.Allow(key) {
					mu.Lock()
					took[key]++
					mu.Unlock()
				}
			}
		})
	}
	for i := range 20 {
		l.SetMemory(1 << (16 + i%6))
	}
	all.Wait()
	for key, n := range took {
		if n > burst {
			t.Errorf("key %d took %d: want at most %d", key, n, burst)
		}
	}
}
