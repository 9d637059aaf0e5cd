package limit

import (
	"math"
	"time"
)

// Evidence holds the measurements behind a change of a limit. A field that does
// not matter to the change is zero.
type Evidence struct {
	// Latency is how long work took on average, outliers clipped, and Reference
	// how long it took under the limit that it is compared with.
	Latency, Reference time.Duration
	// Baseline is how long work takes without a queue; 0 = not known.
	Baseline time.Duration
	// Elasticity is the share of the change in flight that became latency or, if
	// Failed is not zero, by how much the log-odds of failure grow with the
	// logarithm of the units in flight. Error is its standard error; 0 = not known.
	Elasticity, Error float64
	// Failed is the share of the work that failed, each failure weighed by the
	// share of a success's time that it took. Background is the share of
	// failures that load does not cause.
	Failed, Background float64
	Samples            int // of Latency or Failed
}

// compared is the evidence of a comparison of two windows.
func (a *auto) compared(w, ref *window, elasticity, noise float64) Evidence {
	return Evidence{Latency: w.mean(), Reference: ref.mean(), Baseline: a.baseline.mean(), Elasticity: elasticity, Error: noise,
		Background: a.background, Samples: w.n}
}

// resting is the evidence at the beginning of a trial: how long work takes.
func (a *auto) resting(w *window) Evidence {
	return Evidence{Latency: w.mean(), Baseline: a.baseline.mean(), Background: a.background, Samples: w.n}
}

// failing is the evidence of failures.
func (a *auto) failing(b *blame) Evidence {
	e, se := b.elasticity()
	if math.IsInf(se, 1) {
		e, se = 0, 0
	}
	return Evidence{Latency: a.typical, Baseline: a.baseline.mean(), Elasticity: e, Error: se,
		Failed: b.share(), Background: a.background, Samples: int(b.n)}
}

func (w *window) mean() time.Duration {
	if w.n == 0 {
		return 0
	}
	return time.Duration(w.sum / float64(w.n) * float64(time.Second))
}

func (b *baseline) mean() time.Duration {
	if b.samples == 0 {
		return 0
	}
	return time.Duration(math.Exp(b.log) * float64(time.Second))
}
