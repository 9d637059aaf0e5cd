package origin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// ServiceTime is a distribution of service times.
type ServiceTime struct {
	Mean time.Duration
	// Distribution is "constant" (also if empty), "normal", "exponential" or
	// "lognormal".
	Distribution string
	// CV is the coefficient of variation, standard deviation / mean, of a
	// normal (at most 0.3: beyond, too much of it is negative) or a lognormal
	// (at most 10). A constant has 0 and an exponential 1.
	CV float64
}

// Validate says which field is out of range, or returns nil.
func (s ServiceTime) Validate() error {
	if s.Mean < 0 || s.Mean > maxMean {
		return fmt.Errorf("origin: service_time = %v: must be in [0, %v]", s.Mean, maxMean)
	}
	least, most := 0.0, 0.0
	switch s.Distribution {
	case "", "constant":
	case "exponential":
		most = 1 // 0 stands for it too
		if s.CV != 0 {
			least = 1
		}
	case "normal":
		most = 0.3
	case "lognormal":
		most = 10
	default:
		return fmt.Errorf("origin: distribution = %q: must be constant, normal, exponential or lognormal", s.Distribution)
	}
	if !(s.CV >= least && s.CV <= most) {
		return fmt.Errorf("origin: cv = %v: must be in [%v, %v] if the distribution is %s", s.CV, least, most, s.name())
	}
	return nil
}

const maxMean = time.Hour

func (s ServiceTime) name() string {
	if s.Distribution == "" {
		return "constant"
	}
	return s.Distribution
}

// draw returns one service time.
func (s ServiceTime) draw(rng *rand.Rand) time.Duration {
	factor := 1.0
	switch s.Distribution {
	case "exponential":
		factor = rng.ExpFloat64()
	case "normal":
		// What is negative is drawn again: at CV 0.3 one draw in 2,300, which
		// makes the mean 0.05 % too large.
		for factor = -1; factor < 0; {
			factor = 1 + s.CV*rng.NormFloat64()
		}
	case "lognormal":
		// Of the logarithm: σ² = ln(1 + CV²), µ = −σ²/2, so that the mean is 1.
		variance := math.Log1p(s.CV * s.CV)
		factor = math.Exp(rng.NormFloat64()*math.Sqrt(variance) - variance/2)
	}
	return time.Duration(factor * float64(s.Mean))
}
