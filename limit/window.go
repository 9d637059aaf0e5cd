package limit

import (
	"math"
	"time"
)

// A window sums up how long work took, and with how much in flight.
type window struct {
	n       int
	sum, sq float64 // of the durations in seconds, and of their squares
	units   float64 // sum of the logarithms of the units in flight
}

func (w *window) add(d time.Duration, inflight int) {
	r := d.Seconds()
	w.n++
	w.units += math.Log(float64(max(inflight, 1)))
	w.sum += r
	w.sq += r * r
}

// merge adds another window, and forgets what is more than most samples.
func (w *window) merge(v window, most int) {
	w.n += v.n
	w.sum += v.sum
	w.sq += v.sq
	w.units += v.units
	if w.n > most {
		share := float64(most) / float64(w.n)
		w.n = most
		w.sum *= share
		w.sq *= share
		w.units *= share
	}
}

// prolong makes the durations longer if the logarithm of their mean is less than log:
// by half of the difference.
func (w *window) prolong(log float64) {
	if d := (log - w.log()) / 2; d > 0 {
		w.sum *= math.Exp(d)
		w.sq *= math.Exp(2 * d)
	}
}

// log is the logarithm of the mean. Under a full limit the mean is, by
// Little's law, the limit over the throughput: one tells of the other.
func (w *window) log() float64 { return math.Log(w.sum / float64(w.n)) }

// inflight is the mean of the logarithm of the units in flight.
func (w *window) inflight() float64 { return w.units / float64(w.n) }

// The variance of few samples is not believed: it is mixed with that of so
// many others, of which fewer count the more samples there are.
const (
	priorVariance = 0.1
	priorSamples  = 3
	priorFades    = 10
)

// variance is that of one duration, as a share of the mean squared.
func (w *window) variance() float64 {
	if w.n == 0 {
		return priorVariance
	}
	n := float64(w.n)
	prior := priorSamples * math.Exp(-n/priorFades)
	seen := max(w.sq*n/(w.sum*w.sum)-1, 0)
	return (seen*n + priorVariance*prior) / (n + prior)
}

// noise is the standard error of the difference of the logarithms of two means
// of n and m samples like these.
func (w *window) noise(n, m int) float64 {
	return max(0.01, math.Sqrt(w.variance()*(1/float64(n)+1/float64(m))))
}

// most is a duration that little work exceeds: a tenth and three standard
// deviations above the mean.
func (w *window) most() time.Duration {
	mean := w.sum / float64(w.n)
	deviation := math.Sqrt(max(w.sq/float64(w.n)-mean*mean, 0))
	return time.Duration((1.1*mean + 3*deviation) * float64(time.Second))
}
