// Package sla is an experiment: which limit keeps an overloaded service within its
// service level agreement? It repeats "The X-Files: Controlling Throughput with
// rate.Limiter" (rodaine.com, 2017; program github.com/rodaine/x-files-rate), with an
// additional limit.
//
// A handler makes one call of an Upstream, which processes ten calls at once, and queues
// the others. A call that takes longer than 500 ms, including its wait, times out, and
// the handler answers 504. The agreement is 425 requests a second with a 95th percentile
// of 275 ms. The handler has no limit, or one of several (Setting.Rows).
//
// Run measures them over real HTTP, Simulate in virtual time. Requests come in an open
// loop, and latencies count from their intended start.
package sla

import (
	"errors"
	"fmt"
	"time"
)

// Config configures the experiment. Full, Quick and Article return useful ones.
type Config struct {
	Setting Setting
	Agreed  SLA
	Rates   []float64 // offered, requests a second, in [MinRate, MaxRate]
	Rows    []Row     // the limits to measure, of Setting.Rows

	// Point is the time for each row at each rate, at least MinPoint; a third of it
	// at rates below 0.9 of the capacity, which do not queue.
	Point time.Duration
	// Requests is the least number of requests that count at a point, which lasts longer
	// if need be. If zero, Point decides.
	Requests int
	// Skip is the share of a point, at its beginning, that does not count, in [0, 0.9].
	Skip float64
	// Phase is a third of the slow-down experiment: the upstream is normal, twice as
	// slow, and normal again. If zero, that experiment is left out.
	Phase time.Duration

	// Again bounds how often a point is measured again over HTTP if the machine was
	// not Quiet. The least disturbed measurement counts.
	Again int

	Poisson bool   // requests come at random, instead of evenly
	Seed    uint64 // of the service times, and of the requests if they come at random
	// Abandoned lets the upstream continue to process calls after their callers have
	// given up. If false, it drops them, as in the source, which favours the rows that
	// let calls time out.
	Abandoned bool
}

// Quiet is the bound of the delay of sending (P99) on a machine that is not disturbed.
const Quiet = 5 * time.Millisecond

// Bounds of a Config.
const (
	MaxAgain = 100
	MinRate  = 0.01 // of the offers, the tuned limits and the agreement, requests a second
	MaxRate  = 2000
	MaxRates = 100
	MinPoint = 200 * time.Millisecond
	MaxTime  = 2 * time.Hour // of a point, of a Phase, and of the times of a Setting
	// MaxRequests bounds the requests of a point, which are kept in memory.
	MaxRequests = 2_000_000
)

// Full returns the experiment of docs/sla.md. It takes about seven minutes.
func Full() Config {
	c := Config{Setting: Tuned(), Agreed: Agreed(), Point: 4500 * time.Millisecond, Skip: 0.2, Phase: 5 * time.Second, Again: 2, Seed: 1}
	for rate := 25.0; rate <= 600; rate += 25 {
		c.Rates = append(c.Rates, rate)
	}
	c.Rows = c.Setting.Rows()
	return c
}

// Quick returns a shorter experiment, of about a minute. Its queues have less time to grow.
func Quick() Config {
	c := Full()
	c.Rates = []float64{100, 300, 400, 425, 450, 500, 600}
	c.Point, c.Phase, c.Again = 1500*time.Millisecond, 1500*time.Millisecond, 0
	return c
}

// Article returns the experiment with the parameters and the rates of the source, which
// counts all requests of five seconds. It takes about 20 minutes.
func Article() Config {
	c := Full()
	c.Setting, c.Point, c.Skip, c.Phase = Source(), 5*time.Second, 0, 0
	c.Rates = nil
	for rate := 400.0; rate <= 600; rate += 5 {
		c.Rates = append(c.Rates, rate)
	}
	c.Rows = c.Setting.Rows()
	return c
}

// Validate returns an error about the first field that is not valid, or nil.
func (c Config) Validate() error {
	switch {
	case len(c.Rates) == 0 || len(c.Rates) > MaxRates:
		return fmt.Errorf("sla: Rates: there must be 1 to %d", MaxRates)
	case c.Point < MinPoint || c.Point > MaxTime:
		return fmt.Errorf("sla: Point = %v: must be in [%v, %v]", c.Point, MinPoint, MaxTime)
	case c.Again < 0 || c.Again > MaxAgain:
		return fmt.Errorf("sla: Again = %d: must be in [0, %d]", c.Again, MaxAgain)
	case c.Phase < 0 || c.Phase > MaxTime:
		return fmt.Errorf("sla: Phase = %v: must be in [0, %v]", c.Phase, MaxTime)
	case c.Requests < 0 || c.Requests > MaxRequests:
		return fmt.Errorf("sla: Requests = %d: must be in [0, %d]", c.Requests, MaxRequests)
	case !(c.Skip >= 0 && c.Skip <= 0.9):
		return fmt.Errorf("sla: Skip = %v: must be in [0, 0.9]", c.Skip)
	}
	if err := errors.Join(c.Setting.validate(), c.Agreed.validate()); err != nil {
		return err
	}
	for i, rate := range c.Rates {
		if !(rate >= MinRate && rate <= MaxRate) {
			return fmt.Errorf("sla: Rates[%d] = %v: must be in [%v, %d]", i, rate, MinRate, MaxRate)
		}
		if d := c.point(rate); d > MaxTime || rate*d.Seconds() > MaxRequests {
			return fmt.Errorf("sla: Rates[%d] = %v: a point would last %v and have %.0f requests: must be at most %v and %d", i, rate, d.Round(time.Second), rate*d.Seconds(), MaxTime, MaxRequests)
		}
	}
	return nil
}

// point returns the time for a rate.
func (c Config) point(rate float64) time.Duration {
	d := c.Point
	if rate < 0.9*c.Setting.Capacity() {
		d = c.Point / 3
	}
	return max(d, time.Duration(float64(c.Requests)/(rate*(1-c.Skip))*float64(time.Second)))
}

// Points returns the number of points.
func (c Config) Points() int { return len(c.Rates) * len(c.Rows) }

// Duration returns an estimate of the time that Run takes on a quiet machine.
func (c Config) Duration() time.Duration {
	sum := 3 * c.Phase * time.Duration(len(c.slowOffers()))
	for _, rate := range c.Rates {
		sum += c.point(rate) * time.Duration(len(c.Rows))
	}
	return sum
}

// A Result has the points of all rows, in the order of the rates.
type Result struct {
	Simulated bool     `json:"simulated"`
	Agreed    SLA      `json:"agreed"`
	Seed      uint64   `json:"seed"`
	Points    []Point  `json:"points"`
	Slow      []Course `json:"slow,omitempty"`
}

// A Point is one row at one rate.
type Point struct {
	Row      string  `json:"row"`
	Rate     float64 `json:"rate"`     // offered
	Times    int     `json:"times"`    // it was measured; this is the least disturbed one
	Requests int     `json:"requests"` // that counted
	Success  float64 `json:"success"`  // share of them
	Goodput  float64 `json:"goodput"`  // successes during that time, per second
	OfBest   float64 `json:"of_best"`  // Goodput / that of the best row besides Auto, each at most Rate
	Verdict  Verdict `json:"verdict"`

	All       Latency `json:"all"`       // from the intended start
	Successes Latency `json:"successes"` // likewise
	Failures  Latency `json:"failures"`  // likewise: refusals and time-outs
	// Refusals are the latencies of refused requests: at the client from the actual
	// start, and at the server.
	Refusals Latency `json:"refusals"`
	Refusing Latency `json:"refusing"`
	// Sending is the delay between the intended and the actual start: the noise of
	// the machine.
	Sending Latency `json:"sending"`
}

// Latency has quantiles. Without requests, they are zero.
type Latency struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50"`
	P95   time.Duration `json:"p95"`
	P99   time.Duration `json:"p99"`
	P999  time.Duration `json:"p99.9"`
	P9999 time.Duration `json:"p99.99"`
	Max   time.Duration `json:"max"`
}

// compare sets OfBest.
func (r *Result) compare() {
	best := map[float64]float64{}
	for _, p := range r.Points {
		if p.Row != Auto {
			best[p.Rate] = max(best[p.Rate], min(p.Goodput, p.Rate))
		}
	}
	for i := range r.Points {
		if p := &r.Points[i]; best[p.Rate] > 0 {
			p.OfBest = min(p.Goodput, p.Rate) / best[p.Rate]
		}
	}
}
