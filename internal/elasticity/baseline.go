package elasticity

import (
	"math"
	"time"
)

// A Baseline is an estimate of how long work takes if it does not wait in a queue. It may contain
// the wait in a queue that never empties, until it is Proven.
type Baseline struct {
	Log     float64 // the logarithm of the time in seconds; infinite while Samples is 0
	Samples int     // the weight of Log, in samples: at most weightiest
	Proven  bool    // a drain, with less in flight for a moment, has shown that there was no queue
}

// Sure is the number of standard errors that make a difference.
const Sure = 2

const weightiest = 200 // more would make the baseline too slow to move

// Learn adds the samples of a window. If the difference may be chance, they move the
// baseline by their weight, and upwards only if they certainly met no queue. If the
// window's work took less time, or certainly met no queue, it replaces the baseline.
func (b *Baseline) Learn(w *Window, certain bool) {
	d := w.Log() - b.Log
	switch noise := w.Noise(w.N, max(b.Samples, 1)); {
	case b.Samples > 0 && math.Abs(d) < Sure*noise:
		if d < 0 || certain {
			b.Log += d * float64(w.N) / float64(w.N+b.Samples)
			b.Samples = min(b.Samples+w.N, weightiest)
		}
	case b.Samples == 0, d < 0, certain:
		b.Log, b.Samples = w.Log(), w.N
	}
}

// Above returns by how much a window's work takes longer, as a logarithm, and
// the standard error of that.
func (b *Baseline) Above(w *Window) (d, noise float64) {
	return w.Log() - b.Log, w.Noise(w.N, max(b.Samples, 1))
}

// Mean is how long work takes without a queue; 0 if that is not known.
func (b *Baseline) Mean() time.Duration {
	if b.Samples == 0 {
		return 0
	}
	return time.Duration(math.Exp(b.Log) * float64(time.Second))
}
