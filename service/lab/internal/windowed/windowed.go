// Package windowed is Netflix's WindowedLimit with its average window and its default
// settings: it shows another limit.Algorithm one sample per second instead of each. Their
// Vegas and Gradient2 are run in it.
package windowed

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

const (
	length     = time.Second            // of a window
	minSamples = 10                     // in a window; one with fewer is thrown away
	minRTT     = 100 * time.Microsecond // of a sample; shorter ones are left out, failures too
)

// An Algorithm shows another one sample per window. That sample took as long as those
// of the window did on average, had as much in flight as any of them, and was Dropped if
// one of them was. A window ends with the first sample that ends later than a second after
// the window before. The first sample of all is a whole window. Samples that are Ignored
// are left out. So a service that finishes fewer than ten requests a second never adapts.
//
// Source: github.com/Netflix/concurrency-limits, WindowedLimit.java and
// ImmutableAverageSampleWindow.java. It is not safe for concurrent use.
type Algorithm struct {
	alg  limit.Algorithm
	next time.Duration // the window ends after this instant

	// Of the window so far.
	samples  int
	sum      time.Duration // of their RTTs
	inflight int           // the most
	dropped  bool          // any
}

// New returns an Algorithm around alg, which it owns from then on.
func New(alg limit.Algorithm) *Algorithm { return &Algorithm{alg: alg, next: math.MinInt64} }

// Limit returns the limit of the algorithm within.
func (w *Algorithm) Limit() int { return w.alg.Limit() }

// Observe learns from a sample, and returns what the algorithm within made of
// the window that it ended; Kept if it ended none.
func (w *Algorithm) Observe(s limit.Sample) limit.Cause {
	result, rtt := outcome.Plain(s.Outcome), s.End-s.Start
	if result == weir.Ignored || rtt < minRTT {
		return limit.Kept
	}
	w.samples++
	w.sum += rtt
	w.inflight = max(w.inflight, s.Inflight)
	w.dropped = w.dropped || result == weir.Dropped
	if s.End <= w.next {
		return limit.Kept
	}
	ended := *w
	*w = Algorithm{alg: w.alg, next: s.End + length}
	if ended.samples < minSamples {
		return limit.Kept
	}
	mean := limit.Sample{
		Start: s.End - ended.sum/time.Duration(ended.samples), End: s.End, Inflight: ended.inflight, Outcome: weir.Success,
	}
	if ended.dropped {
		mean.Outcome = weir.Dropped
	}
	return w.alg.Observe(mean)
}
