// Package stat summarizes the repetitions of a measurement.
package stat

import (
	"math"
	"slices"
)

// Median returns the median, the mean of the middle two if there is no middle. Without
// values, it is not a number.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
