// Package sla is an experiment: what keeps a service within its service level
// agreement when more comes than it can bear? It is that of "The X-Files:
// Controlling Throughput with rate.Limiter" (rodaine.com, 2017) and of its
// program github.com/rodaine/x-files-rate, with one row more.
//
// A handler makes one call of an Upstream, which works on ten calls at once for
// 23 ms each, and lets the others queue. A call that takes longer than 500 ms,
// its wait included, is given up, and the handler answers 504. The agreement is
// 425 requests a second with a 95th percentile of 275 ms. In front of the
// handler stands nothing, or one of four ways to limit what comes in (Rows).
//
// Run measures them over real HTTP, Simulate in virtual time. Requests come in
// an open loop, and latencies count from when they should have been sent.
package sla

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/service/internal/lab/dist"
)

// The experiment, after its source. The source's calls take 20 ms and the
// amount of a normal with a standard deviation of 5 ms, which has a mean of
// 24 ms and varies by 0.13 of it. Here the mean is 23 ms, so that 425 a second
// can be done.
const (
	Workers = 10
	Mean    = 23 * time.Millisecond
	CV      = 0.13
	Timeout = 500 * time.Millisecond // of a call

	Tuned    = 425                   // requests a second that the limits on the rate let in
	Burst    = 10                    // and so many at once
	Patience = 75 * time.Millisecond // for a token

	AgreedRate = 425
	AgreedP95  = 275 * time.Millisecond
)

// Capacity is how many calls a second the Upstream can do.
const Capacity = float64(Workers) * float64(time.Second) / float64(Mean)

func serviceTime() dist.ServiceTime {
	return dist.ServiceTime{Mean: Mean, Distribution: "normal", CV: CV}
}

// Config says what to measure. Full and Quick return two that are useful.
type Config struct {
	Rates []float64 // offered, requests a second, in (0, MaxRate]
	Rows  []Row     // who stands in front of the service. If empty, Rows()

	// Point is how long each row is offered each rate, at least MinPoint; a
	// third of it at rates below nine tenths of the Capacity, where nothing queues.
	// The first fifth of it is not counted.
	Point time.Duration
	// Phase is a third of the slow-down: the upstream is well, twice as slow,
	// and well again. If zero, there is none.
	Phase time.Duration

	// Again is how many times a point is measured again over HTTP if the
	// machine was not Quiet meanwhile. The quietest time counts, whatever came
	// of it.
	Again int

	Poisson bool   // requests come at random, instead of evenly
	Seed    uint64 // of the service times, and of the requests if they come at random
	// Abandoned lets the upstream work on for callers that have given up. If
	// false, it forgets them, as the source's does: that is kinder to the rows
	// that let calls time out.
	Abandoned bool
}

// Quiet is by how much all but one in a hundred requests are sent too late at
// most, where nothing else keeps the machine busy.
const Quiet = 5 * time.Millisecond

// Bounds of a Config.
const (
	MaxAgain = 100
	MaxRate  = 2000
	MaxRates = 100
	MinPoint = 200 * time.Millisecond
	MaxTime  = 10 * time.Minute // of a Point, and of a Phase
)

// Full is the source's experiment, in about five minutes.
func Full() Config {
	c := Config{Point: 4500 * time.Millisecond, Phase: 5 * time.Second, Again: 2, Seed: 1}
	for rate := 25.0; rate <= 600; rate += 25 {
		c.Rates = append(c.Rates, rate)
	}
	return c
}

// Quick is less of it, in less than a minute.
func Quick() Config {
	return Config{
		Rates: []float64{100, 300, 400, 425, 450, 500, 600}, Point: 1500 * time.Millisecond,
		Phase: 2 * time.Second, Seed: 1,
	}
}

// Validate says which field is wrong, or returns nil.
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

func (c Config) rows() []Row {
	if len(c.Rows) == 0 {
		return Rows()
	}
	return c.Rows
}

// point returns how long a rate is offered, and the part that is not counted.
func (c Config) point(rate float64) (whole, warmup time.Duration) {
	whole = c.Point
	if rate < 0.9*Capacity {
		whole /= 3
	}
	return whole, whole / 5
}

// Points is how many there will be.
func (c Config) Points() int { return len(c.Rates) * len(c.rows()) }

// Duration is about how long Run takes on a machine that is quiet.
func (c Config) Duration() time.Duration {
	sum := 3 * c.Phase * time.Duration(len(c.slowRows()))
	for _, rate := range c.Rates {
		whole, _ := c.point(rate)
		sum += whole * time.Duration(len(c.rows()))
	}
	return sum
}

// A Result is what came of the rows, in the order of the rates.
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
	Times    int     `json:"times"`    // that it was measured; this is the quietest
	Requests int     `json:"requests"` // that counted
	Success  float64 `json:"success"`  // share of them
	Goodput  float64 `json:"goodput"`  // successes that came in during that time, a second
	OfBest   float64 `json:"of_best"`  // Goodput / the best row's, Auto's aside; what exceeds Rate does not count

	All       Latency `json:"all"`       // from when it should have been sent
	Successes Latency `json:"successes"` // likewise
	Failures  Latency `json:"failures"`  // likewise: refusals and time-outs
	// Refusals are those that were not let in: from when they were sent to when
	// the answer was there, and how long the server took for them.
	Refusals Latency `json:"refusals"`
	Refusing Latency `json:"refusing"`
	// Sending is by how much requests were sent too late: the noise of the
	// machine.
	Sending Latency `json:"sending"`
}

// Latency is quantiles, to three digits. Those of nothing are zero.
type Latency struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50"`
	P95   time.Duration `json:"p95"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// refused reports whether an answer's status is that of a request that was not
// let in.
func refused(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
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
