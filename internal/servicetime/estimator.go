package servicetime

import (
	"math"
	"time"
)

// An Estimator learns how long work takes and how fast units leave, to tell which
// requests would be too late. It learns while requests are refused, too: what leaves while
// a request waits, or was refused, shows how fast a queue would move. So no estimate keeps
// itself up.
type Estimator struct {
	Service time.Duration // of work that comes to its end, smoothed; 0 = not known
	Quick   time.Duration // of the quickest tenth of it
	Demand  bool          // a request waits, or would have

	early       int           // samples of Service, up to firstSamples
	units, time float64       // left, and in what time, while there was Demand; the last dozen departures count most
	since       time.Duration // of the last departure, or of the first Demand after it

	Took Histogram // of the successes
}

const (
	firstSamples = 16
	maxGap       = 8
)

// Ended learns from work that took d and has come to its end.
//
// A single slow one counts for twice the estimate at most, else rare slow work
// would make all the rest look late. Among the first samples, a quicker one counts
// for half: if the very first took long, a few others correct it. The quick estimate
// goes down by half of a difference and up by a 64th of it: it stays near the
// quickest tenth, so that what it calls impossible is.
func (p *Estimator) Ended(d time.Duration) {
	if d <= 0 {
		return
	}
	if p.Service <= 0 {
		p.Service, p.Quick = d, d
		return
	}
	weight := time.Duration(16)
	if p.early < firstSamples {
		p.early++
		if d < p.Service {
			weight = 2
		}
	}
	p.Service += (min(d, 2*p.Service) - p.Service) / weight
	if d < p.Quick {
		p.Quick -= (p.Quick - d) / 2
	} else {
		p.Quick += (min(d, 4*p.Quick) - p.Quick) / 64
	}
}

// Wanted says that a request waits, or would have.
func (p *Estimator) Wanted(now time.Duration) {
	if !p.Demand {
		p.Demand, p.since = true, now
	}
}

// Freed learns that n units left. If more is set, requests still wait.
//
// While requests wait, work is in flight, so departures are on average no further apart than
// the service takes. A single gap counts for maxGap times that at most: else the end of one
// long job would make all requests that follow look late.
func (p *Estimator) Freed(now time.Duration, n int, more bool) {
	if !p.Demand || n <= 0 {
		return
	}
	const keep = 1 - 1.0/16
	p.units = p.units*keep + float64(n)
	gap := now - p.since
	if p.Service > 0 {
		gap = min(gap, maxGap*p.Service)
	}
	p.time = p.time*keep + float64(gap)
	p.since = now
	p.Demand = more
}

// Wait estimates how long it takes until n units have left; 0 = not known.
func (p *Estimator) Wait(n float64) time.Duration {
	if p.units <= 0 {
		return 0
	}
	return time.Duration(min(n*p.time/p.units, 1<<60))
}

// Within estimates how many units leave within d while the limit is used up, by Little's
// law; any number as long as nothing is known. It does not look at what has left lately: a
// moment in which the machine stood still is no slow service.
func (p *Estimator) Within(d time.Duration, limit int) float64 {
	if p.Service <= 0 {
		return math.Inf(1)
	}
	return float64(limit) * float64(d) / float64(p.Service)
}
