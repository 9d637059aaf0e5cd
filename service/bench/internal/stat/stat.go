// Package stat summarizes the repetitions of a measurement.
package stat

import "slices"

// Quantile returns the figure of that rank: the median for 0.5. There must be a figure.
func Quantile(figures []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// Median returns the figure in the middle.
func Median(figures []float64) float64 { return Quantile(figures, 0.5) }
