// Package adaptive is the pure core of package throttle: Throttle decides which
// requests a client sends to an overloaded backend, Budget which it retries, and
// Backoff when.
//
// Instants are durations since any fixed epoch, and chance is an argument. An
// instant earlier than a previous one counts as that previous one. Nothing here is
// safe for concurrent use.
package adaptive

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Config sets up a Throttle. See throttle.Config, which has the same fields.
type Config struct {
	K      float64       `json:"k,omitempty"`
	Window time.Duration `json:"window,omitempty"`
	Grace  int           `json:"grace,omitempty"`
	MaxP   float64       `json:"max_p,omitempty"`
}

func (c Config) withDefaults() Config {
	return Config{cmp.Or(c.K, 2), cmp.Or(c.Window, 30*time.Second), cmp.Or(c.Grace, 20), cmp.Or(c.MaxP, 0.9)}
}

// Validate returns an error that names the first field that is out of range.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case !(d.K >= 1 && d.K <= math.MaxFloat64):
		return fmt.Errorf("throttle: K = %v: must be >= 1 and finite", c.K)
	case d.Window < 0:
		return fmt.Errorf("throttle: Window = %v: must be >= 0", c.Window)
	case !(d.MaxP <= 1):
		return fmt.Errorf("throttle: MaxP = %v: must be <= 1", c.MaxP)
	}
	return nil
}

// A Throttle is client-side adaptive throttling, by the formula of throttle.Limiter over a
// sliding window. Grace and MaxP are not in the book: they spare clients that send few
// requests, and let more requests through that discover that the backend has recovered.
//
// The book counts a request when it is attempted, Throttle when its result is known: when
// Throttle refuses it, and when the backend accepts it (Accept) or does not (Drop). A
// request in flight does not show that the backend refuses, nor one that its caller
// cancelled. So a backend that accepts every request is never throttled, however slow it is.
// A refusal by Throttle counts as a request, so p stays high for a while after the backend
// has recovered (TestThrottleRecovers).
//
// New makes a Throttle; the zero value is not usable.
type Throttle struct {
	cfg  Config
	ring ring // other: accepts

	sent, throttled uint64
}

// New returns a Throttle, or the error of cfg.Validate.
func New(cfg Config) (*Throttle, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.Grace, cfg.MaxP = max(cfg.Grace, 0), max(cfg.MaxP, 0)
	return &Throttle{cfg: cfg, ring: newRing(cfg.Window)}, nil
}

// Request attempts a request, and reports whether to send it; u is evenly
// distributed in [0, 1). If it is sent, call Accept or Drop with its result, or
// neither if its caller left.
func (a *Throttle) Request(now time.Duration, u float64) bool {
	a.ring.advance(now)
	if u < a.p() {
		a.ring.request(now)
		a.throttled++
		return false
	}
	a.sent++
	return true
}

// Accept counts an answer that shows that the backend accepted the request.
func (a *Throttle) Accept(now time.Duration) {
	a.ring.request(now)
	a.ring.add(now)
}

// Drop counts a request that the backend refused, that did not reach it, or that
// timed out.
func (a *Throttle) Drop(now time.Duration) { a.ring.request(now) }

func (a *Throttle) p() float64 {
	n := a.ring.sum
	p := (float64(n.requests-a.cfg.Grace) - a.cfg.K*float64(n.other)) / float64(n.requests+1)
	return min(max(p, 0), a.cfg.MaxP)
}

// Stats are the state and the counts of a Throttle. See throttle.Stats, which has
// the same fields.
type Stats struct {
	P        float64
	Requests int
	Accepts  int

	Sent      uint64
	Throttled uint64
}

// Stats returns the state at now, and the counts.
func (a *Throttle) Stats(now time.Duration) Stats {
	a.ring.advance(now)
	return Stats{P: a.p(), Requests: a.ring.sum.requests, Accepts: a.ring.sum.other,
		Sent: a.sent, Throttled: a.throttled}
}
