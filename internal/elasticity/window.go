// Package elasticity has the estimators of package autolimit: how long work takes with
// how much in flight, how long it takes without a queue, and whether failures depend on
// what is in flight.
package elasticity

import (
	"math"
	"time"
)

// A Window sums up how long work took, and with how much in flight.
type Window struct {
	N       int     // samples
	sum, sq float64 // of the durations in seconds, and of their squares
	units   float64 // sum of the logarithms of the units in flight
}

// Add adds work that took d. The logarithm of the units in flight at its start is x.
func (w *Window) Add(d time.Duration, x float64) {
	r := d.Seconds()
	w.N++
	w.units += x
	w.sum += r
	w.sq += r * r
}

// Merge adds another window. If there are more than most samples, each counts less.
func (w *Window) Merge(v Window, most int) {
	w.N += v.N
	w.sum += v.sum
	w.sq += v.sq
	w.units += v.units
	if w.N > most {
		share := float64(most) / float64(w.N)
		w.N = most
		w.sum *= share
		w.sq *= share
		w.units *= share
	}
}

// Prolong makes the durations longer by half of the difference, if the logarithm of
// their mean is less than log.
func (w *Window) Prolong(log float64) {
	if d := (log - w.Log()) / 2; d > 0 {
		w.sum *= math.Exp(d)
		w.sq *= math.Exp(2 * d)
	}
}

// Mean is the mean duration; 0 if there is none.
func (w *Window) Mean() time.Duration {
	if w.N == 0 {
		return 0
	}
	return time.Duration(w.sum / float64(w.N) * float64(time.Second))
}

// Log is the logarithm of the mean. Under a full limit the mean is, by Little's law,
// the limit over the throughput, so changes of the mean show changes of the throughput.
func (w *Window) Log() float64 { return math.Log(w.sum / float64(w.N)) }

// Inflight is the mean of the logarithm of the units in flight.
func (w *Window) Inflight() float64 { return w.units / float64(w.N) }

// The variance of few samples is uncertain. A prior variance is mixed in, which counts
// like priorSamples more samples at first and fades as samples come in.
const (
	priorVariance = 0.1
	priorSamples  = 3
	priorFades    = 10
)

// Variance is the variance of one duration over the mean squared.
func (w *Window) Variance() float64 {
	if w.N == 0 {
		return priorVariance
	}
	n := float64(w.N)
	prior := priorSamples * math.Exp(-n/priorFades)
	seen := max(w.sq*n/(w.sum*w.sum)-1, 0)
	return (seen*n + priorVariance*prior) / (n + prior)
}

// Noise is the standard error of the difference of the logarithms of two means
// of n and m samples like these.
func (w *Window) Noise(n, m int) float64 {
	return max(0.01, math.Sqrt(w.Variance()*(1/float64(n)+1/float64(m))))
}

// Most is a duration that little work exceeds: a tenth and three standard
// deviations above the mean.
func (w *Window) Most() time.Duration {
	mean := w.sum / float64(w.N)
	deviation := math.Sqrt(max(w.sq/float64(w.N)-mean*mean, 0))
	return time.Duration((1.1*mean + 3*deviation) * float64(time.Second))
}

// Near reports that the means of two windows differ by less than 13 %. It costs no
// logarithm.
func (w *Window) Near(v *Window) bool {
	r := w.sum * float64(v.N) / (v.sum * float64(w.N))
	return 0.88 < r && r < 1.13
}
