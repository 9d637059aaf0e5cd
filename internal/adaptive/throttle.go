// Package adaptive is the pure core of package throttle: Throttle decides which
// requests a client sends to an overloaded backend, Budget which it retries, and
// Backoff when.
//
// Instants are durations since any fixed epoch, and chance is an argument. An
// instant earlier than a previous one counts as that previous one. Nothing here is
// safe for concurrent use.
package adaptive

import (
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
	if c.K == 0 {
		c.K = 2
	}
	if c.Window == 0 {
		c.Window = 30 * time.Second
	}
	if c.Grace == 0 {
		c.Grace = 20
	}
	if c.MaxP == 0 {
		c.MaxP = 0.9
	}
	return c
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

// A Throttle is client-side adaptive throttling (Google, Site Reliability
// Engineering, 2016, chapter 21, equation 21-1). It refuses a share
//
//	p = max(0, (requests − K·accepts) / (requests + 1))
//
// of the attempted requests, counted over a sliding window. The book counts a
// request when it is attempted. Throttle counts it when its result is known:
//
//   - A request that Throttle refuses counts at once, as a request. So a client
//     that attempts more also holds back a larger share.
//   - A request that the backend accepts counts as a request and an accept when
//     the answer comes (Accept).
//   - A request that the backend refuses, or answers too late, counts as a request
//     when that is known (Drop).
//   - A request in flight does not count, and neither does a request that its
//     caller cancelled: they do not show that the backend refuses.
//
// So a backend that accepts every request is never throttled, however slow it is
// and however many callers cancel. A backend that does not answer at all is noticed
// when the first requests time out.
//
// The 1 in the denominator keeps p below 1, so that some requests still reach the
// backend and discover that it has recovered; but only about one per window. Two
// bounds that the book does not have speed that up, and spare clients that send
// few requests:
//
//	p = min(MaxP, max(0, (requests − Grace − K·accepts) / (requests + 1)))
//
// A refusal by Throttle counts as a request, so p stays high for a while after the
// backend has recovered. With the defaults, after an outage longer than Window, p is
// above 1/2 for 1.4 windows and almost 0 after 1.8 windows: 42 and 55 seconds.
// With the book's window of two minutes these would be 2:48 and 3:40, and without
// the two bounds 13:07 and 14:00 (TestThrottleRecovers).
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
