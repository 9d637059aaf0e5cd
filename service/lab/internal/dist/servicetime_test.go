package dist

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const draws = 1_000_000

// A million draws have the mean, the CV and the shape of the distribution, as closely
// as chance allows. The standard error of the mean is CV/√n of it; that of the standard
// deviation, by the delta method, is √((κ-1)/n)/2 of it, κ being the kurtosis
// (3 for a normal). The CV is their quotient, so that its error is at most
// their sum. The share of draws up to some point is binomial. Five standard
// errors are allowed: a right sampler passes with nearly any seed.
func TestDraw(t *testing.T) {
	for _, tt := range []struct {
		name     string
		cv       float64 // set
		mean     float64 // of that set
		want     float64 // CV
		kurtosis float64
		cdf      func(x float64) float64 // x is of the mean set
	}{
		{"", 0, 1, 0, 1, step},
		{"constant", 0, 1, 0, 1, step},
		{"exponential", 0, 1, 1, 9, exponential},
		{"exponential", 1, 1, 1, 9, exponential},
		{"normal", 0.1, 1, 0.1, 3, normal(0.1)},
		// Cut at α = -10/3, where λ = φ(α)/(1-Φ(α)) = 0.00154: the mean is
		// 1 + 0.3 λ, the variance 0.09 (1 + αλ - λ²).
		{"normal", 0.3, 1.00046, 0.29909, 3, normal(0.3)},
		{"half-normal", 0.126, 1, 0.126, 3.87, halfNormal(0.126)}, // of the kurtosis 3 + 8(π-3)/(π-2)²
		{"half-normal", 0.75, 1, 0.75, 3.87, halfNormal(0.75)},
		{"lognormal", 0.5, 1, 0.5, 8.04, lognormal(0.5)}, // with w = 1 + CV²,
		{"lognormal", 1, 1, 1, 41, lognormal(1)},         // κ = w⁴ + 2w³ + 3w² - 3
	} {
		const mean, five = 200 * time.Millisecond, 5
		s := ServiceTime{Mean: mean, Distribution: tt.name, CV: tt.cv}
		sample := drawMany(t, s)
		m, cv := moments(sample)
		root := math.Sqrt(draws)
		near(t, s, "mean", m, tt.mean, five*tt.want/root)
		near(t, s, "CV", cv, tt.want, five*tt.want*(tt.want+math.Sqrt(tt.kurtosis-1)/2)/root)
		for _, x := range []float64{0.1, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4} {
			p := tt.cdf(x)
			near(t, s, fmt.Sprint("share up to ", x), shareUpTo(x, sample), p, five*math.Sqrt(p*(1-p))/root)
		}
	}
}

// 20 ms and the absolute value of a normal variable of 5 ms: 24 ms on average.
func TestHalfNormal(t *testing.T) {
	s := HalfNormal(20*time.Millisecond, 5*time.Millisecond)
	if s.Validate() != nil || s.Mean.Round(time.Microsecond) != 23989*time.Microsecond || math.Abs(s.CV-0.12564) > 1e-5 {
		t.Errorf("%+v: want 23.989 ms and 0.12564", s)
	}
	s.Mean, s.CV = 23989423*time.Nanosecond, 0.125641
	rng, least := rand.New(rand.NewPCG(1, 0)), time.Hour
	for range draws {
		least = min(least, s.Draw(rng))
	}
	if least < 19999*time.Microsecond || least > 20001*time.Microsecond {
		t.Errorf("the least of %d: %v: want 20 ms", draws, least)
	}
}

// drawMany returns service times, as multiples of the mean.
func drawMany(t *testing.T, s ServiceTime) []float64 {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	sample := make([]float64, draws)
	for i := range sample {
		d := s.Draw(rng)
		if d <= 0 { // a negative draw must not become zero
			t.Fatalf("%+v: drew %v", s, d)
		}
		sample[i] = float64(d) / float64(s.Mean)
	}
	return sample
}

func moments(sample []float64) (mean, cv float64) {
	for _, x := range sample {
		mean += x / draws
	}
	variance := 0.0
	for _, x := range sample {
		variance += (x - mean) * (x - mean) / draws
	}
	return mean, math.Sqrt(variance) / mean
}

func shareUpTo(most float64, sample []float64) float64 {
	n := 0
	for _, x := range sample {
		if x <= most {
			n++
		}
	}
	return float64(n) / draws
}

// Distribution functions of mean 1.

func step(x float64) float64 {
	if x < 1 {
		return 0
	}
	return 1
}

func exponential(x float64) float64 { return 1 - math.Exp(-x) }

func normal(cv float64) func(float64) float64 { // of what is left above 0
	cut := phi(-1 / cv)
	return func(x float64) float64 { return (phi((x-1)/cv) - cut) / (1 - cut) }
}

func halfNormal(cv float64) func(float64) float64 {
	sd := cv / math.Sqrt(1-2/math.Pi)
	least := 1 - sd*math.Sqrt(2/math.Pi)
	return func(x float64) float64 { return max(2*phi((x-least)/sd)-1, 0) }
}

func lognormal(cv float64) func(float64) float64 {
	s := math.Sqrt(math.Log(1 + cv*cv))
	return func(x float64) float64 { return phi(math.Log(x)/s + s/2) }
}

// phi is the distribution function of the standard normal.
func phi(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func near(t *testing.T, s ServiceTime, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance+1e-8) { // a nanosecond is rounded off
		t.Errorf("%+v: %s %.5f: want %.5f ± %.5f", s, what, got, want, tolerance)
	}
}

func TestNoServiceTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, s := range []ServiceTime{
		{}, {Distribution: "exponential"}, {Distribution: "normal", CV: 0.3}, {Distribution: "lognormal", CV: 10},
	} {
		if d := s.Draw(rng); d != 0 {
			t.Errorf("%+v: drew %v: want 0", s, d)
		}
	}
}
