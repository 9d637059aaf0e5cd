package leaf

import (
	"math"
	"time"
)

// A demand measures the rate that callers of a key ask for, allowed or not.
//
// The measure is a moving average over about 5 seconds. It follows an increase at once if
// that is more than the noise of a Poisson process (4 standard deviations). A sample counts
// for at most 16 times the last measure, and for the limit, so that callers that retry
// without a pause do not inflate it without bound.
type demand struct {
	tried float64       // tokens since the last sample
	calls uint32        // since the last sample
	cost  float32       // tokens a call, an average
	rate  float64       // tokens a second
	at    time.Duration // of the last sample
	since time.Duration // the instant of the first request
}

// Parameters of the measure.
const (
	average   = 5.0                   // of the moving average, in seconds
	youth     = time.Second           // after the first request, in which the average is over the time so far
	minSample = 50 * time.Millisecond // between two samples
	maxGrowth = 16                    // of a sample to the last measure
)

func (d *demand) try(n float64) {
	d.tried += n
	d.calls++
}

// sample ends a sample at the instant now, unless it is too short. has is the rate that the
// key may use, and limit the most that counts, 0 if there is none.
func (d *demand) sample(now time.Duration, has, limit float64) {
	dt := (now - d.at).Seconds()
	switch {
	case now-d.at >= minSample:
	case d.at == d.since: // the first report of a key
		d.rate = d.tried / youth.Seconds()
		return
	default:
		return
	}
	if d.calls > 0 {
		d.cost = max(float32(d.tried)/float32(d.calls), d.cost*.8)
	}
	cost := float64(d.cost)
	tried := min(d.tried, maxGrowth*max(d.rate, has, 1)*dt+cost)
	jumped := tried > d.rate*dt+d.noise(dt, 4)+2*cost
	if limit > 0 {
		tried = min(tried, limit*dt)
	}
	if jumped {
		d.rate = tried / dt
	} else {
		age := max(now-d.since, youth).Seconds()
		d.rate += dt / min(average+dt, age) * (tried/dt - d.rate)
	}
	d.at, d.tried, d.calls = now, 0, 0
}

// surge reports whether the sample so far is more than noise above a rate.
func (d *demand) surge(now time.Duration, rate float64) bool {
	dt := (now - d.at).Seconds()
	expected := rate * dt
	cost := max(float64(d.cost), 1)
	return d.tried > expected+4*math.Sqrt(expected*cost)+2*cost
}

// noise returns a number of standard deviations of the tokens that come in a time.
func (d *demand) noise(dt, deviations float64) float64 {
	return deviations * math.Sqrt(d.rate*dt*float64(d.cost))
}

// deviation returns the standard deviation of the measure at a rate.
func (d *demand) deviation(rate float64) float64 {
	return math.Sqrt(rate * float64(d.cost) / (2 * average))
}

// A fall finds out soon that the demand for a key has fallen by more than noise, such as when leaves
// have got what they asked for before. The key is passed on, and what its own callers do not want is
// for leaves.
type fall struct {
	tried float64       // tokens, since at
	at    time.Duration // the beginning
}

// Parameters of a fall: the least and the most time that it counts.
const (
	leastFall = 500 * time.Millisecond
	mostFall  = 4 * time.Second
)

// sample counts a sample that is about to end, and lowers the rate if it has fallen.
func (f *fall) sample(now time.Duration, d *demand) {
	if now-d.at < minSample {
		return
	}
	f.tried += d.tried
	took := now - f.at
	if took < leastFall {
		return
	}
	dt := took.Seconds()
	expected := d.rate * dt
	switch {
	case f.tried < expected-d.noise(dt, 4)-2*float64(d.cost):
		d.rate = f.tried / dt
	case f.tried < expected && took < mostFall:
		return
	}
	*f = fall{at: now}
}
