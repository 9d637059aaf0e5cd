//go:build !race

package http2serve_test

import (
	"runtime"
	"testing"
)

// Acceptance: a decision allocates nothing.
func TestAllocations(t *testing.T) {
	for name, grpc := range tapeKinds {
		mallocs := func(batches int) uint64 {
			tape := newTape(grpc, batches)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tape.play(t)
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		const fewer, more = 100, 500
		few := mallocs(fewer) // remembers each key
		if n := int(mallocs(more) - few); n > (more-fewer)*tapeBatch/100 {
			t.Errorf("%s: %d decisions take %d allocations", name, (more-fewer)*tapeBatch, n)
		}
	}
}
