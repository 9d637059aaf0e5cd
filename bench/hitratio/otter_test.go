//go:build !race

package main

import (
	"math/rand/v2"
	"testing"
)

// On each trace, over its sizes, the hit ratio is within a point of otter's, or
// above it. The trace "batch" is left out: on it both are at 2 % or at 60 %, as
// their seeds have it.
func TestWithinAPointOfOtter(t *testing.T) {
	const n = 500_000
	for _, tr := range traces {
		if tr.name == "batch" {
			continue
		}
		keys := tr.keys(n, rand.New(rand.NewPCG(1, 0)))
		weir, otter := 0, 0
		for _, size := range tr.sizes {
			weir += playing(newWeir)(keys, size)
			otter += playing(newOtter)(keys, size)
		}
		percent := func(hits int) float64 { return 100 * float64(hits) / float64(n*len(tr.sizes)) }
		t.Logf("%-8s weir %.1f, otter %.1f", tr.name, percent(weir), percent(otter))
		if percent(weir) < percent(otter)-1 {
			t.Errorf("%s: %.1f %%, otter %.1f %%", tr.name, percent(weir), percent(otter))
		}
	}
}
