// Package throttle is what a client does about a backend that is overloaded:
// it sends less, and retries less. Refusing costs a backend too; one that
// spends itself on refusals helps nobody, and only its clients can end that.
//
//   - Adaptive refuses requests locally, as many as the backend's answers of
//     the last half minute ask for.
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
	// Window is how far back requests and accepts count. A longer one knows more
	// of a backend, and takes longer to trust it again: see Adaptive. If zero, 30
	// seconds; the book's is 2 minutes.
	Window time.Duration `json:"window,omitempty"`
	// Grace is how many requests in a window need no accept to vouch for them:
	// so few say little about a backend. If zero, 20; if negative, none, as in
	// the book.
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
// over a sliding window. The book counts a request when it is attempted. Here it
// counts when it is known what became of it:
//
//   - One that Adaptive refuses itself counts at once, as a request: the more a
//     client asks for, the larger is the share that it keeps back.
//   - One that the backend accepts counts as a request and an accept, when the
//     answer comes (Accept).
//   - One that the backend did not take on, or too late, counts as a request when
//     that is known (Drop).
//   - One in flight does not count, and one whose caller left never does: neither
//     says that the backend refuses.
//
// So a backend that accepts all is never throttled, however slow it is, however
// much is in flight and whoever cancels. One that does not answer at all is
// noticed when the first requests time out; a limit on what is in flight notices
// it before.
//
// The 1 in the denominator keeps p below 1, so that some request always goes
// out and finds a backend that has recovered; but only about one in a window.
// Two bounds that are not in the book let it be found sooner, and spare a client
// that has asked for little:
//
//	p = min(MaxP, max(0, (requests − Grace − K·accepts) / (requests + 1)))
//
// What is refused here counts as a request, and so p stays high for a while after
// the backend is back: with the defaults and after an outage longer than Window,
// p is above 1/2 for 1.4 times Window, and nearly 0 after 1.8 times, that is 42
// and 55 seconds; with the book's two minutes it would be 2:48 and 3:40, without
// the bounds 13:07 and 14:00 (TestAdaptiveRecovers).
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
// is u, evenly distributed in [0, 1). If it is sent, Accept or Drop says what
// became of it; neither, if its caller left.
func (a *Adaptive) Request(now time.Duration, u float64) bool {
	a.ring.advance(now)
	if u < a.p() {
		a.ring.request(now)
		a.throttled++
		return false
	}
	a.sent++
	return true
}

// Accept is an answer that shows that the backend took a request on.
func (a *Adaptive) Accept(now time.Duration) {
	a.ring.request(now)
	a.ring.add(now)
}

// Drop is the end of a request that the backend did not take on, or too late:
// refused, not reached, timed out.
func (a *Adaptive) Drop(now time.Duration) { a.ring.request(now) }

func (a *Adaptive) p() float64 {
	n := a.ring.sum
	p := (float64(n.requests-a.cfg.Grace) - a.cfg.K*float64(n.other)) / float64(n.requests+1)
	return min(max(p, 0), a.cfg.MaxP)
}

// AdaptiveStats is the state and the counts of an Adaptive.
type AdaptiveStats struct {
	P        float64 // chance that the next request is refused
	Requests int     // in the window: accepted, dropped, or refused here
	Accepts  int     // in the window: of these, accepted

	Sent      uint64 // since the beginning, whatever became of them
	Throttled uint64 // since the beginning: refused locally
}

// Stats returns the state at now, and the counts.
func (a *Adaptive) Stats(now time.Duration) AdaptiveStats {
	a.ring.advance(now)
	return AdaptiveStats{P: a.p(), Requests: a.ring.sum.requests, Accepts: a.ring.sum.other,
		Sent: a.sent, Throttled: a.throttled}
}
