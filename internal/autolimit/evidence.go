package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// Evidence holds the measurements behind a change of the limit. A field that does
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
func (a *Auto) compared(w, ref *elasticity.Window, e, noise float64) Evidence {
	return Evidence{Latency: w.Mean(), Reference: ref.Mean(), Baseline: a.baseline.Mean(), Elasticity: e, Error: noise,
		Background: a.background, Samples: w.N}
}

// resting is the evidence at the beginning of a trial: how long work takes.
func (a *Auto) resting(w *elasticity.Window) Evidence {
	return Evidence{Latency: w.Mean(), Baseline: a.baseline.Mean(), Background: a.background, Samples: w.N}
}

// failing is the evidence of failures.
func (a *Auto) failing(b *elasticity.Blame) Evidence {
	e, se := b.Elasticity()
	if math.IsInf(se, 1) {
		e, se = 0, 0
	}
	return Evidence{Latency: a.typical, Baseline: a.baseline.Mean(), Elasticity: e, Error: se,
		Failed: b.Share(), Background: a.background, Samples: b.Samples()}
}
