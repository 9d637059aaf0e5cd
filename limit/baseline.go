package limit

import "math"

// A baseline is how long work takes when none of it waits: the reference for
// what is a queue. It is only proven by a drain.
type baseline struct {
	log     float64 // of seconds; infinite as long as samples is 0
	samples int     // that it rests on, as far as they count
	proven  bool    // a drain has shown that there was no queue
}

const weightiest = 200 // samples that a baseline rests on at most, so that it can move

// learn takes a window in. What differs by chance counts by the weight of its
// samples. What took less time, or met no queue for certain, replaces it.
func (b *baseline) learn(w *window, certain bool) {
	d := w.log() - b.log
	switch noise := w.noise(w.n, max(b.samples, 1)); {
	case b.samples > 0 && math.Abs(d) < sure*noise:
		if d < 0 || certain {
			b.log += d * float64(w.n) / float64(w.n+b.samples)
			b.samples = min(b.samples+w.n, weightiest)
		}
	case b.samples == 0, d < 0, certain:
		b.log, b.samples = w.log(), w.n
	}
}

// above returns by how much a window's work takes longer, as a logarithm, and
// the standard error of that.
func (b *baseline) above(w *window) (d, noise float64) {
	return w.log() - b.log, w.noise(w.n, max(b.samples, 1))
}
