// Package dist has the distributions of service times of real and simulated origins.
package dist

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// ServiceTime is a distribution of service times. The zero value is always 0.
type ServiceTime struct {
	Mean         time.Duration `yaml:"mean" json:"mean" default:"0s" example:"50ms" help:"Mean time."`
	Distribution string        `yaml:"distribution" json:"distribution,omitempty" enum:"constant,normal,half-normal,exponential,lognormal" default:"constant" example:"lognormal" help:"Distribution of the time. A half-normal is a least time plus the absolute value of a normal variable with the mean 0."`
	CV           float64       `yaml:"cv" json:"cv,omitempty" default:"0 of a constant, 1 of an exponential" example:"0.25" help:"Coefficient of variation, standard deviation / mean, which must be given for a normal (at most 0.3), a half-normal (at most 0.75) and a lognormal (at most 10)."`
}

// A FieldError reports a field that is out of range.
type FieldError struct {
	Field string // mean, distribution or cv of a ServiceTime
	Value any
	Rule  string // what it must be
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s = %v: %s", e.Field, e.Value, e.Rule)
}

// Validate returns a *FieldError for the first field that is out of range, or
// nil.
func (s ServiceTime) Validate() error {
	if s.Mean < 0 || s.Mean > MaxMean {
		return &FieldError{"mean", s.Mean, fmt.Sprintf("must be in [0, %v]", MaxMean)}
	}
	ok, rule := false, ""
	switch s.Distribution {
	case "", "constant":
		ok, rule = s.CV == 0, "must be 0, or left out,"
	case "exponential":
		ok, rule = s.CV == 0 || s.CV == 1, "must be 1, or left out,"
	case "normal":
		ok, rule = s.CV > 0 && s.CV <= 0.3, "must be in (0, 0.3]"
	case "half-normal":
		ok, rule = s.CV > 0 && s.CV <= 0.75, "must be in (0, 0.75]"
	case "lognormal":
		ok, rule = s.CV > 0 && s.CV <= 10, "must be in (0, 10]"
	default:
		return &FieldError{"distribution", strconv.Quote(s.Distribution), "must be constant, normal, half-normal, exponential or lognormal"}
	}
	if !ok {
		return &FieldError{"cv", s.CV, rule + " if the distribution is " + s.Name()}
	}
	return nil
}

// MaxMean is the upper bound of Mean.
const MaxMean = time.Hour

// Longest is the upper bound of the results of Draw. It leaves room to add an instant.
const Longest = 1_000_000 * MaxMean

// Name returns the name of the distribution. That of the zero value is "constant".
func (s ServiceTime) Name() string { return cmp.Or(s.Distribution, "constant") }

// Spreads reports whether the distribution has a configurable CV.
func (s ServiceTime) Spreads() bool {
	return s.Distribution == "normal" || s.Distribution == "half-normal" || s.Distribution == "lognormal"
}

// Spread returns the coefficient of variation, including that of an exponential.
func (s ServiceTime) Spread() float64 {
	if s.Distribution == "exponential" {
		return 1
	}
	return s.CV
}

// The mean and the standard deviation of |N|, where N is a standard normal variable:
// √(2/π) and √(1 − 2/π).
const (
	meanAbs      = 0.7978845608028654
	deviationAbs = 0.6028102749890869
)

// HalfNormal returns the distribution of least + |N|, where N is a normal variable with
// the mean 0 and this standard deviation.
func HalfNormal(least, deviation time.Duration) ServiceTime {
	mean := float64(least) + meanAbs*float64(deviation)
	return ServiceTime{Mean: time.Duration(mean), Distribution: "half-normal", CV: deviationAbs * float64(deviation) / mean}
}

// Draw returns a service time. The only source of randomness is rng.
func (s ServiceTime) Draw(rng *rand.Rand) time.Duration {
	factor := 1.0
	switch s.Distribution {
	case "exponential":
		factor = rng.ExpFloat64()
	case "normal":
		// Negative results are drawn again: at CV 0.3 one in 2,300, which makes the
		// mean 0.05 % too large.
		for factor = -1; factor < 0; {
			factor = 1 + s.CV*rng.NormFloat64()
		}
	case "half-normal":
		// 1 is the mean of least + σ|N|: least = 1 − σ·meanAbs, and σ follows from the CV.
		factor = 1 + s.CV/deviationAbs*(math.Abs(rng.NormFloat64())-meanAbs)
	case "lognormal":
		// Of the logarithm: σ² = ln(1 + CV²), µ = −σ²/2, so that the mean is 1.
		variance := math.Log1p(s.CV * s.CV)
		factor = math.Exp(rng.NormFloat64()*math.Sqrt(variance) - variance/2)
	}
	return time.Duration(min(factor*float64(s.Mean), float64(Longest)))
}
