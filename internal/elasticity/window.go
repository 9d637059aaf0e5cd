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
	N           int     // samples
	sum, sq     float64 // of the durations in seconds, and of their squares
	cost, costs float64 // sum of the costs, and of their squares
	cross       float64 // sum of the products of durations and costs
	units       float64 // sum of the logarithms of the units in flight
}

// Add adds a sample. Work with this cost took cost times d. x is the logarithm of the number of units in flight
// when it began.
func (w *Window) Add(d time.Duration, x, cost float64) {
	r := d.Seconds() * cost
	w.N++
	w.units += x
	w.sum += r
	w.sq += r * r
	w.cost += cost
	w.costs += cost * cost
	w.cross += cost * r
}

// Merge adds another window. If there are more than most samples, each counts less.
func (w *Window) Merge(v Window, most int) {
	w.N += v.N
	w.sum += v.sum
	w.sq += v.sq
	w.units += v.units
	w.cost += v.cost
	w.costs += v.costs
	w.cross += v.cross
	if w.N > most {
		share := float64(most) / float64(w.N)
		w.N = most
		w.sum *= share
		w.sq *= share
		w.units *= share
		w.cost *= share
		w.costs *= share
		w.cross *= share
	}
}

// Prolong makes the durations longer by half of the difference, if the logarithm of
// their mean is less than log.
func (w *Window) Prolong(log float64) {
	if d := (log - w.Log()) / 2; d > 0 {
		w.sum *= math.Exp(d)
		w.sq *= math.Exp(2 * d)
		w.cross *= math.Exp(d)
	}
}

// Mean is the mean duration at a cost of one; 0 if there is none.
func (w *Window) Mean() time.Duration {
	if w.N == 0 {
		return 0
	}
	return time.Duration(w.sum / w.cost * float64(time.Second))
}

// Log is the logarithm of the mean. Under a full limit the mean is, by Little's law,
// the limit over the throughput, so changes of the mean show changes of the throughput.
func (w *Window) Log() float64 { return math.Log(w.sum / w.cost) }

// Inflight is the mean of the logarithm of the units in flight.
func (w *Window) Inflight() float64 { return w.units / float64(w.N) }

// The variance of few samples is uncertain. A prior variance is mixed in, which counts
// like priorSamples more samples at first and fades as samples come in.
const (
	priorVariance = 0.1
	priorSamples  = 3
	priorFades    = 10
)

// residual is the sum of the squares by which durations differ from their costs times the mean.
func (w *Window) residual(mean float64) float64 {
	return max(w.sq-2*mean*w.cross+mean*mean*w.costs, 0)
}

// Variance is the variance of one duration over the mean squared. That of different costs does not
// count: the mean is a ratio of sums (Cochran, Sampling Techniques, chapter 6).
func (w *Window) Variance() float64 {
	if w.N == 0 {
		return priorVariance
	}
	n := w.cost * w.cost / w.costs // samples of one cost that tell as much (Kish, Survey Sampling, 1965)
	prior := priorSamples * math.Exp(-n/priorFades)
	seen := n * w.residual(w.sum/w.cost) / (w.sum * w.sum)
	return (seen*n + priorVariance*prior) / (n + prior) * float64(w.N) / n
}

// Noise is the standard error of the difference of the logarithms of two means
// of n and m samples like these.
func (w *Window) Noise(n, m int) float64 {
	return max(0.01, math.Sqrt(w.Variance()*(1/float64(n)+1/float64(m))))
}

// Most is a duration that little work exceeds: a tenth and three standard
// deviations above the mean.
func (w *Window) Most() time.Duration {
	mean := w.sum / w.cost
	deviation := math.Sqrt(w.residual(mean) / w.costs)
	return time.Duration((1.1*mean + 3*deviation) * float64(time.Second))
}

// Near reports that the means of two windows differ by less than 13 %. It costs no
// logarithm.
func (w *Window) Near(v *Window) bool {
	r := w.sum * v.cost / (v.sum * w.cost)
	return 0.88 < r && r < 1.13
}
