package stripe

import (
	"sync"
	"testing"
)

// No count is lost, and none reaches another counter.
func TestCounters(t *testing.T) {
	c := New()
	var all sync.WaitGroup
	for g := range uint8(16) {
		all.Go(func() {
			for range 1000 {
				c.Add(g % 8)
			}
		})
	}
	all.Wait()
	for i := range uint8(8) {
		if n := c.Sum(i); n != 2000 {
			t.Errorf("counter %d: %d, want 2000", i, n)
		}
	}
}
