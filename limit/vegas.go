package limit

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// probe is how many limits' worth of samples, at most, Vegas takes between probes.
const probe = 30

// NewVegas returns Vegas, a comparator: use Auto. Vegas is TCP Vegas (Brakmo and
// Peterson 1995) as Netflix adapted it to requests, as published. It estimates the part
// of the limit L that is queueing from the RTT in excess of the least RTT:
//
//	queue = ⌈L · (1 − least RTT / RTT)⌉
//
// With s = ⌊log10 L⌋, at least 1, the limit moves by
//
//	−s   if the work was dropped
//	 0   if less than half of L was in flight
//	+6s  if queue ≤ s
//	+s   if queue < 3s
//	−s   if queue > 6s
//	 0   otherwise
//
// A sample faster than all before becomes the least RTT, and moves nothing. A probe
// replaces the least RTT by that of the present sample, after 15 · L to 30 · L samples,
// so that the estimate adapts to work that has become slower for good.
//
// Netflix runs it per sample, or per window of samples. Equal samples give equal limits.
//
// Known weaknesses, kept because this is the published algorithm:
//
//   - A probe under load takes an RTT with the queue in it for the least, and
//     the limit grows until there is as much queue again on top: under
//     sustained overload it drifts upwards with each probe, to Max in the end
//     (Netflix/concurrency-limits#137 and #165).
//   - Per sample, each drop of a burst counts.
//   - A failure that is faster than all work before is taken for the least
//     RTT, not for a drop; the limit then falls until the next probe.
//   - Requests that differ in cost look like queueing: the least RTT is that
//     of the cheapest.
//
// Source: github.com/Netflix/concurrency-limits, VegasLimit.java. There, s is
// √L from 1000 on in some versions, log10 L in others. It is not safe for
// concurrent use.
func NewVegas(cfg Config) (Algorithm, error) {
	if err := cfg.fill(20, 1, 1000, math.MaxInt); err != nil {
		return nil, err
	}
	v := &vegas{cfg: cfg, limit: float64(cfg.Initial), rng: rand.New(rand.NewPCG(0, 0))}
	v.draw()
	return v, nil
}

type vegas struct {
	cfg   Config
	limit float64       // in [Min, Max]
	least time.Duration // RTT; 0 before there is one
	rng   *rand.Rand

	samples int     // since the last probe
	jitter  float64 // of the next one, in [0.5, 1)
}

func (v *vegas) draw() { v.samples, v.jitter = 0, 0.5+v.rng.Float64()/2 }

func (v *vegas) Limit() int { return v.cfg.whole(v.limit) }

func (v *vegas) Observe(s Sample) Cause {
	result, rtt := outcome.Plain(s.Outcome), s.End-s.Start
	if result == weir.Ignored || rtt <= 0 {
		return Kept
	}
	v.samples++
	switch {
	case float64(v.samples) >= v.jitter*probe*v.limit:
		v.draw()
		v.least = rtt
		return Kept
	case v.least == 0 || rtt < v.least:
		v.least = rtt
		return Kept
	}
	d, why := v.change(rtt, s.Inflight, result == weir.Dropped || v.cfg.slow(rtt))
	was := v.Limit()
	v.limit = v.cfg.within(v.limit + d)
	if v.Limit() == was {
		return Kept
	}
	return why
}

// change returns by how much the limit should move, and why.
func (v *vegas) change(rtt time.Duration, inflight int, dropped bool) (float64, Cause) {
	queue := math.Ceil(v.limit * (1 - float64(v.least)/float64(rtt)))
	s := log10(v.Limit())
	switch {
	case dropped:
		return -s, Dropped
	case 2*float64(inflight) < v.limit:
		return 0, Kept
	case queue <= s:
		return 6 * s, Grown
	case queue < 3*s:
		return s, Grown
	case queue > 6*s:
		return -s, Queue
	}
	return 0, Kept
}

// log10 returns ⌊log10 n⌋, at least 1. By math.Log10, that of 1000 is less than 3.
func log10(n int) float64 { return float64(max(len(strconv.Itoa(n))-1, 1)) }
