package autolimit

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/elasticity"
)

// Evidence is limit.Evidence.
type Evidence struct {
	Latency, Reference, Baseline time.Duration
	Elasticity, Error            float64
	Failed, Background           float64
	Samples                      int
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
