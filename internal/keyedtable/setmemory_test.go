package keyedtable_test

import (
	"sync"
	"testing"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
)

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
