//go:build !race

package h2inline_test

import (
	"runtime"
	"testing"
)

// Acceptance: a decision allocates nothing.
func TestAllocations(t *testing.T) {
	for _, kind := range tapeKinds {
		mallocs := func(batches int) uint64 {
			tape := newTape(kind, batches)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tape.play(t)
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		const fewer, more = 100, 500
		few := mallocs(fewer) // remembers each key
		if n := int(mallocs(more) - few); n > (more-fewer)*tapeBatch/100 {
			t.Errorf("%s: %d decisions take %d allocations", kind, (more-fewer)*tapeBatch, n)
		}
	}
}
