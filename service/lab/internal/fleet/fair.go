package fleet

import (
	"math"
	"slices"
)

// level returns the most that one of several demands gets of a limit in a max-min fair
// division (Bertsekas and Gallager, Data Networks, 6.5.2): +Inf if there is enough for all.
func level(wants []float64, limit float64) float64 {
	sorted := slices.Sorted(slices.Values(wants))
	for i, want := range sorted {
		if part := limit / float64(len(sorted)-i); want > part {
			return part
		}
		limit -= want
	}
	return math.Inf(1)
}
