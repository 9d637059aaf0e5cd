// Package sla is an experiment: which limit keeps an overloaded service within its
// service level agreement? It repeats "The X-Files: Controlling Throughput with
// rate.Limiter" (rodaine.com, 2017; program github.com/rodaine/x-files-rate), with an
// additional limit.
//
// A handler makes one call of an Upstream, which processes ten calls at once for
// 23 ms each, and queues the others. A call that takes longer than 500 ms, including
// its wait, times out, and the handler answers 504. The agreement is 425 requests a
// second with a 95th percentile of 275 ms. The handler has no limit, or one of four
// (Rows).
//
// Run measures them over real HTTP, Simulate in virtual time. Requests come in an open
// loop, and latencies count from their intended start.
package sla

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/service/internal/lab/dist"
)

// The parameters of the source. Its calls take 20 ms plus the absolute value of a
// normal variable with a standard deviation of 5 ms: a mean of 24 ms, and a coefficient
// of variation of 0.13. Here the mean is 23 ms, which allows 425 calls a second.
const (
	Workers = 10
	Mean    = 23 * time.Millisecond
	CV      = 0.13
	Timeout = 500 * time.Millisecond // of a call

	Tuned    = 425                   // requests a second of the rate limits
	Burst    = 10                    // of the rate limits
	Patience = 75 * time.Millisecond // for a token

	AgreedRate = 425
	AgreedP95  = 275 * time.Millisecond
)

// Capacity is the highest throughput of the Upstream, in calls a second.
const Capacity = float64(Workers) * float64(time.Second) / float64(Mean)

func serviceTime() dist.ServiceTime {
	return dist.ServiceTime{Mean: Mean, Distribution: "normal", CV: CV}
}

// Config configures the experiment. Full and Quick return useful ones.
type Config struct {
	Rates []float64 // offered, requests a second, in (0, MaxRate]
	Rows  []Row     // the limits to measure

	// Point is the time for each row at each rate, at least MinPoint; a third of it
	// at rates below 0.9 Capacity, which do not queue. The first fifth is not
	// counted.
	Point time.Duration
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
	MaxRate  = 2000
	MaxRates = 100
	MinPoint = 200 * time.Millisecond
	MaxTime  = 10 * time.Minute // of a Point, and of a Phase
)

// Full returns the experiment of the source. It takes about five minutes.
func Full() Config {
	c := Config{Rows: Rows(), Point: 4500 * time.Millisecond, Phase: 5 * time.Second, Again: 2, Seed: 1}
	for rate := 25.0; rate <= 600; rate += 25 {
		c.Rates = append(c.Rates, rate)
	}
	return c
}

// Quick returns a shorter experiment, of about a minute.
func Quick() Config {
	return Config{
		Rates: []float64{100, 300, 400, 425, 450, 500, 600}, Rows: Rows(),
		Point: 1500 * time.Millisecond, Phase: 2 * time.Second, Seed: 1,
	}
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
	}
	for i, rate := range c.Rates {
		if !(rate > 0 && rate <= MaxRate) {
			return fmt.Errorf("sla: Rates[%d] = %v: must be in (0, %d]", i, rate, MaxRate)
		}
	}
	return nil
}

// point returns the time for a rate.
func (c Config) point(rate float64) time.Duration {
	if rate < 0.9*Capacity {
		return c.Point / 3
	}
	return c.Point
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
