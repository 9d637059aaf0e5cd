package leaf

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// arrive lets callers come at a rate for a time, with a sample each step, and calls check
// after each sample.
func arrive(d *demand, rnd *rand.Rand, now *time.Duration, rate, limit float64, steps int, step time.Duration, check func()) {
	for range steps {
		*now += step
		for at := rnd.ExpFloat64(); at < rate*step.Seconds(); at += rnd.ExpFloat64() {
			d.try(1)
		}
		d.sample(*now, rate, limit)
		check()
	}
}

// A steady demand is measured within the noise of its average.
func TestSteadyDemand(t *testing.T) {
	for _, rate := range []float64{2, 20, 200, 20_000} {
		rnd, now := rand.New(rand.NewPCG(1, uint64(rate))), time.Duration(0)
		d := demand{cost: 1}
		arrive(&d, rnd, &now, rate, 0, 20, time.Second, func() {})
		sum, n, far := 0.0, 0.0, 0
		arrive(&d, rnd, &now, rate, 0, 1000, time.Second, func() {
			sum, n = sum+d.rate, n+1
			if off := math.Abs(d.rate - rate); off > 3*d.deviation(rate)+.05*rate {
				far++
			}
		})
		if far > 10 {
			t.Errorf("at a rate of %v: %d of 1000 measures are far from it", rate, far)
		}
		if mean := sum / n; math.Abs(mean-rate) > .05*rate {
			t.Errorf("at a rate of %v: measured %v in the mean", rate, mean)
		}
	}
}

// An increase counts at once, a decrease over seconds.
func TestDemandJumps(t *testing.T) {
	rnd, now := rand.New(rand.NewPCG(1, 1)), time.Duration(0)
	d := demand{cost: 1}
	arrive(&d, rnd, &now, 20, 0, 60, time.Second, func() {})
	arrive(&d, rnd, &now, 300, 0, 1, 100*time.Millisecond, func() {})
	if d.rate < 200 {
		t.Errorf("100 ms after a jump from 20 to 300: measured %v", d.rate)
	}
	arrive(&d, rnd, &now, 300, 0, 60, time.Second, func() {})
	arrive(&d, rnd, &now, 0, 0, 3, time.Second, func() {})
	if d.rate < 100 || d.rate > 250 {
		t.Errorf("3 s after the end of 300: measured %v", d.rate)
	}
	arrive(&d, rnd, &now, 0, 0, 60, time.Second, func() {})
	if d.rate > 1 {
		t.Errorf("a minute after the end: measured %v", d.rate)
	}
}

// A caller that retries without a pause counts at most as the limit, and at most 16 times
// what was measured before.
func TestRetriesAreBounded(t *testing.T) {
	d := demand{cost: 1, rate: 5}
	now := time.Duration(0)
	for _, want := range []float64{16*10 + 10, 1000, 1000, 1000} {
		now += 100 * time.Millisecond
		for range 1_000_000 {
			d.try(1)
		}
		d.sample(now, 10, 1000)
		if d.rate > want {
			t.Errorf("at %v: measured %v, want at most %v", now, d.rate, want)
		}
	}
}

// Callers that retry without a pause want the limit at once, also if that is less than noise above
// the last measure.
func TestIncreaseBeyondTheLimitCountsAtOnce(t *testing.T) {
	d := demand{cost: 1, rate: 80}
	for range 90 {
		d.try(1)
	}
	if d.sample(100*time.Millisecond, 80, 100); d.rate != 100 {
		t.Errorf("900 tries a second with a limit of 100: measured %v", d.rate)
	}
}

// A fall of the demand counts soon if it is more than noise: not that of steady callers.
func TestFall(t *testing.T) {
	for _, rate := range []float64{2, 20, 200, 2000} {
		rnd, now := rand.New(rand.NewPCG(1, uint64(rate))), time.Duration(0)
		d, f := demand{cost: 1, rate: rate}, fall{}
		lows := 0
		for range 10_000 {
			now += 200 * time.Millisecond
			for at := rnd.ExpFloat64(); at < rate*.2; at += rnd.ExpFloat64() {
				d.try(1)
			}
			f.sample(now, &d)
			if d.sample(now, rate, 0); d.rate < rate/2-1 {
				lows++
			}
		}
		if lows > 50 {
			t.Errorf("at a rate of %v: %d of 10,000 measures are low", rate, lows)
		}
		fell := now
		for d.rate > rate/10+2 && now < fell+time.Minute {
			now += 200 * time.Millisecond
			f.sample(now, &d)
			d.sample(now, rate, 0)
		}
		if most := time.Second + time.Duration(80/rate*float64(time.Second)); now-fell > most {
			t.Errorf("at a rate of %v: the end counts after %v, want at most %v", rate, now-fell, most)
		}
	}
}
