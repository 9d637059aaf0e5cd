// Package windowed is Netflix's WindowedLimit with its average window: it shows another
// limit.Algorithm one sample per window instead of each. Their Vegas and Gradient2 are
// run in it.
package windowed

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// Config sets up an Algorithm. The zero value is usable; its defaults
// are Netflix's.
type Config struct {
	Window    time.Duration `json:"window,omitempty"`     // the least length of a window. If zero, 1 s
	MaxWindow time.Duration `json:"max_window,omitempty"` // the greatest, >= Window. If zero, Window
	Samples   int           `json:"samples,omitempty"`    // a window of fewer is thrown away, >= 1. If zero, 10
	MinRTT    time.Duration `json:"min_rtt,omitempty"`    // work that took less is not seen. If zero, 100 µs; if negative, all is seen
}

func (c Config) withDefaults() Config {
	c.Window = cmp.Or(c.Window, time.Second)
	c.MaxWindow = cmp.Or(c.MaxWindow, c.Window)
	c.Samples = cmp.Or(c.Samples, 10)
	c.MinRTT = cmp.Or(c.MinRTT, 100*time.Microsecond)
	return c
}

// Validate says which field is out of range, or returns nil.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case d.Window < 0:
		return fmt.Errorf("windowed: Window = %v: must be >= 0", c.Window)
	case d.MaxWindow < d.Window:
		return fmt.Errorf("windowed: MaxWindow = %v: must be >= Window (%v)", c.MaxWindow, d.Window)
	case d.Samples < 1:
		return fmt.Errorf("windowed: Samples = %d: must be >= 1", c.Samples)
	}
	return nil
}

// An Algorithm shows another one sample per window. That sample took as long as those
// of the window did on average, had as much in flight as any of them, and was Dropped if
// one of them was. A window ends with the first sample that ends later than twice the
// window's least RTT, brought into [Window, MaxWindow], after the window before. The
// first sample of all is a whole window. Samples that are Ignored are left out.
//
// Known weaknesses, kept because this is the published algorithm:
//
//   - A service that finishes fewer than Samples per window never adapts.
//   - Failures faster than MinRTT are left out.
//   - One drop in a window of thousands drops the window.
//
// Source: github.com/Netflix/concurrency-limits, WindowedLimit.java and
// ImmutableAverageSampleWindow.java. It is not safe for concurrent use.
type Algorithm struct {
	cfg  Config
	alg  limit.Algorithm
	next time.Duration // the window ends after this instant

	// Of the window so far.
	samples  int
	sum, min time.Duration // of their RTTs
	inflight int           // the most
	dropped  bool          // any
}

// New returns an Algorithm around alg, which it owns from then on, or the
// error of cfg.Validate.
func New(cfg Config, alg limit.Algorithm) (*Algorithm, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if alg == nil {
		return nil, errors.New("windowed: no algorithm")
	}
	return &Algorithm{cfg: cfg.withDefaults(), alg: alg, next: math.MinInt64}, nil
}

// Limit returns the limit of the algorithm within.
func (w *Algorithm) Limit() int { return w.alg.Limit() }

// Observe learns from a sample, and returns what the algorithm within made of
// the window that it ended; Kept if it ended none.
func (w *Algorithm) Observe(s limit.Sample) limit.Cause {
	result, rtt := outcome.Plain(s.Outcome), s.End-s.Start
	if result == weir.Ignored || rtt < max(w.cfg.MinRTT, 0) {
		return limit.Kept
	}
	if w.samples == 0 || rtt < w.min {
		w.min = rtt
	}
	w.samples++
	w.sum += rtt
	w.inflight = max(w.inflight, s.Inflight)
	w.dropped = w.dropped || result == weir.Dropped
	if s.End <= w.next {
		return limit.Kept
	}
	return w.end(s.End)
}

// end ends the window, begins the next, and shows what was in it.
func (w *Algorithm) end(now time.Duration) limit.Cause {
	ended := *w
	w.samples, w.sum, w.min, w.inflight, w.dropped = 0, 0, 0, 0, false
	w.next = now + min(max(2*ended.min, w.cfg.Window), w.cfg.MaxWindow)
	if ended.samples < w.cfg.Samples {
		return limit.Kept
	}
	s := limit.Sample{
		Start:    now - ended.sum/time.Duration(ended.samples),
		End:      now,
		Inflight: ended.inflight,
		Outcome:  weir.Success,
	}
	if ended.dropped {
		s.Outcome = weir.Dropped
	}
	return w.alg.Observe(s)
}
