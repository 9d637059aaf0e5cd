package pace

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals is a sequence of instants. It is not safe for concurrent use.
type Arrivals struct {
	segments []segment
	rng      *rand.Rand // nil: evenly spaced

	began time.Duration // of the present segment
	whole uint64        // steps within the present segment: offset + whole
	next  float64       // the next arrival, in requests since the segment's beginning, less whole
}

// Even spaces arrivals as evenly as the profile allows, the first at its very
// beginning. Arrival k of a constant rate is at k/rate, without drift.
func Even(p Profile) *Arrivals { return &Arrivals{segments: p.segments} }

// Poisson makes independent arrivals. The only source of randomness is rng.
func Poisson(p Profile, rng *rand.Rand) *Arrivals {
	return &Arrivals{segments: p.segments, rng: rng, next: rng.ExpFloat64()}
}

// Next returns the next arrival since the beginning. ok is false if there is none.
func (a *Arrivals) Next() (at time.Duration, ok bool) {
	for len(a.segments) > 0 {
		s := a.segments[0]
		if seconds, ok := s.until(float64(a.whole) + a.next); ok {
			within := math.Round(seconds * 1e9)
			if within > float64(math.MaxInt64-a.began) {
				return 0, false // beyond the end of time
			}
			if s.length == 0 || within < float64(s.length) {
				a.step()
				return a.began + time.Duration(within), true
			}
		}
		if s.length == 0 {
			return 0, false
		}
		a.next = max(a.next-(s.total()-float64(a.whole)), 0)
		a.whole = 0
		a.began += s.length
		a.segments = a.segments[1:]
	}
	return 0, false
}

func (a *Arrivals) step() {
	if a.rng == nil {
		a.whole++
		return
	}
	a.next += a.rng.ExpFloat64()
	for ; a.next >= 1; a.next-- {
		a.whole++
	}
}
