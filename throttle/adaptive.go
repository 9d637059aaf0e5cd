// Package throttle is what a client does about a backend that is overloaded:
// it sends less, and retries less. Refusing costs a backend too; one that
// spends itself on refusals helps nobody, and only its clients can end that.
//
//   - Adaptive refuses requests locally, as many as the backend's answers of
//     the last two minutes ask for.
//   - Budget bounds retries to a share of the requests.
//   - Backoff spreads them in time.
//
// Everything here is pure: instants are durations since any fixed epoch,
// chance is an argument, and nothing is safe for concurrent use. Package
// throttler puts clock, chance and lock around it.
package throttle

import (
	"fmt"
	"math"
	"time"
)

// AdaptiveConfig sets up an Adaptive. The zero value is usable.
type AdaptiveConfig struct {
	// K is how many requests each accept vouches for, >= 1: at 2 a backend
	// refuses up to one request for each that it accepts, at 1.1 one for ten.
	// Less is harder on the client, and slower to see a backend recover. If
	// zero, 2.
	K float64 `json:"k,omitempty"`
	// Window is how far back requests and accepts count. It should be several
	// times as long as the backend takes to answer. If zero, 2 minutes.
	Window time.Duration `json:"window,omitempty"`
	// Grace is how many requests in a window need no accept to vouch for
	// them. It should exceed what is in flight before a fresh client has its
	// first answers, or they are refused although nothing is wrong. If zero,
	// 100; if negative, none, as in the book.
	Grace int `json:"grace,omitempty"`
	// MaxP bounds the chance of a refusal, in (0, 1]: the rest of the requests
	// is sent, come what may. If zero, 0.9; 1 is the book's formula.
	MaxP float64 `json:"max_p,omitempty"`
}

func (c AdaptiveConfig) withDefaults() AdaptiveConfig {
	if c.K == 0 {
		c.K = 2
	}
	if c.Window == 0 {
		c.Window = 2 * time.Minute
	}
	if c.Grace == 0 {
		c.Grace = 100
	}
	if c.MaxP == 0 {
		c.MaxP = 0.9
	}
	return c
}

// Validate says which field is out of range, or returns nil.
func (c AdaptiveConfig) Validate() error {
	d := c.withDefaults()
	switch {
	case !(d.K >= 1 && d.K <= math.MaxFloat64):
		return fmt.Errorf("throttle: K = %v: must be >= 1 and finite", c.K)
	case d.Window < 0:
		return fmt.Errorf("throttle: Window = %v: must be >= 0", c.Window)
	case !(d.MaxP > 0 && d.MaxP <= 1):
		return fmt.Errorf("throttle: MaxP = %v: must be in (0, 1]", c.MaxP)
	}
	return nil
}

// Adaptive is client-side adaptive throttling (Google, Site Reliability
// Engineering, 2016, chapter 21, equation 21-1): of the requests that the
// application attempts, it refuses a share of
//
//	p = max(0, (requests − K·accepts) / (requests + 1))
//
// over a sliding window. Requests count when they are attempted, those that it
// refuses itself too: the more a client asks for, the larger is the share that
// it keeps back. Accepts count when the backend's answer comes, even if the
// request has left the window: else a backend that takes long to answer would
// look like one that refuses.
//
// The 1 in the denominator keeps p below 1, so that some request always goes
// out and finds a backend that has recovered; but only about one in a window.
// From so little, a client of 1000 requests a second takes ten minutes or more
// to trust a backend again that was away for six. Two bounds that are not in
// the book cut that to three (TestAdaptiveRecovers), and keep a fresh client
// from taking the answers to come for refusals:
//
//	p = min(MaxP, max(0, (requests − Grace − K·accepts) / (requests + 1)))
//
// A client that sends less than Grace in a window is never throttled: it
// knows too little of the backend for that.
//
// An instant that is earlier than a previous one is taken as that previous
// one. NewAdaptive makes an Adaptive; the zero value is not usable.
type Adaptive struct {
	cfg  AdaptiveConfig
	ring ring // other: accepts

	sent, throttled uint64
}

// NewAdaptive returns an Adaptive, or the error of cfg.Validate.
func NewAdaptive(cfg AdaptiveConfig) (*Adaptive, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	cfg.Grace = max(cfg.Grace, 0)
	return &Adaptive{cfg: cfg, ring: newRing(cfg.Window)}, nil
}

// Request is the attempt of a request, and reports whether to send it. Chance
// is u, evenly distributed in [0, 1).
func (a *Adaptive) Request(now time.Duration, u float64) bool {
	a.ring.advance(now)
	refuse := u < a.p()
	a.ring.request(now)
	if refuse {
		a.throttled++
		return false
	}
	a.sent++
	return true
}

// Accept is an answer that shows that the backend took a request on. Whatever
// else becomes of a request, there is nothing to tell: it stays a request that
// nobody accepted.
func (a *Adaptive) Accept(now time.Duration) { a.ring.add(now) }

func (a *Adaptive) p() float64 {
	n := a.ring.sum
	p := (float64(n.requests-a.cfg.Grace) - a.cfg.K*float64(n.other)) / float64(n.requests+1)
	return min(max(p, 0), a.cfg.MaxP)
}

// AdaptiveStats is the state and the counts of an Adaptive.
type AdaptiveStats struct {
	P        float64 // chance that the next request is refused
	Requests int     // in the window: attempted, refused ones too
	Accepts  int     // in the window

	Sent      uint64 // since the beginning
	Throttled uint64 // since the beginning: refused locally
}

// Stats returns the state at now, and the counts.
func (a *Adaptive) Stats(now time.Duration) AdaptiveStats {
	a.ring.advance(now)
	return AdaptiveStats{P: a.p(), Requests: a.ring.sum.requests, Accepts: a.ring.sum.other,
		Sent: a.sent, Throttled: a.throttled}
}
