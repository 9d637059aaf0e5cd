// Package pace computes the times at which requests of a load test arrive, for real
// clients and for simulated ones.
//
// A Profile is the offered rate over time, λ(t). Its integral Λ(t) is the
// number of requests expected until t. Arrivals steps through Λ, by exactly
// one per request (Even) or by exponential steps of mean one (Poisson), and
// turns each step back into an instant. For Poisson that is the time-change
// theorem: a process of rate λ(t) is one of rate 1 on the clock Λ(t).
package pace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Segment of a Profile: the rate goes in a straight line from From to To.
type Segment struct {
	From, To float64       // requests per second, >= 0
	For      time.Duration // how long; 0, allowed only for the last, = for ever
}

// A Profile is an offered rate over time. After its last segment nothing is
// offered. The zero Profile offers nothing.
type Profile struct{ segments []Segment }

// Constant offers a rate for ever.
func Constant(rate float64) Profile { return Profile{[]Segment{{From: rate, To: rate}}} }

// Ramp goes from one rate to another, and stays there.
func Ramp(from, to float64, over time.Duration) Profile {
	return Profile{[]Segment{{from, to, over}, {From: to, To: to}}}
}

// Step offers a rate for some time, and then another one for ever.
func Step(before float64, after time.Duration, then float64) Profile {
	return Profile{[]Segment{{before, before, after}, {From: then, To: then}}}
}

// maxRate bounds a rate, in requests per second: an arrival each nanosecond.
const maxRate = 1e9

// Validate returns an error about the first segment that is not valid, or nil.
func (p Profile) Validate() error {
	for i, s := range p.segments {
		for _, rate := range []float64{s.From, s.To} {
			if !(rate >= 0 && rate <= maxRate) {
				return fmt.Errorf("pace: rate = %v: must be in [0, %v]", rate, maxRate)
			}
		}
		last := i == len(p.segments)-1
		switch {
		case s.For < 0:
			return fmt.Errorf("pace: duration = %v: must be >= 0", s.For)
		case s.For == 0 && !last:
			return fmt.Errorf("pace: segment %d has no duration, and is not the last", i+1)
		case s.For == 0 && s.From != s.To:
			return fmt.Errorf("pace: a ramp from %v to %v needs a duration", s.From, s.To)
		}
	}
	return nil
}

// Rate is λ(at), in requests per second.
func (p Profile) Rate(at time.Duration) float64 {
	for _, s := range p.segments {
		if s.For == 0 || at < s.For {
			if s.From == s.To {
				return s.From
			}
			return s.From + (s.To-s.From)*float64(at)/float64(s.For)
		}
		at -= s.For
	}
	return 0
}

// Scale runs a profile speed times as fast: it divides durations and multiplies rates.
// The number of requests does not change.
func (p Profile) Scale(speed float64) Profile {
	scaled := make([]Segment, len(p.segments))
	for i, s := range p.segments {
		scaled[i] = Segment{s.From * speed, s.To * speed, time.Duration(float64(s.For) / speed)}
	}
	return Profile{scaled}
}

// Parse reads a profile: segments RATE or RATE..RATE, each with @DURATION except the
// last, which may continue for ever. After a ramp at the end, the final rate continues.
//
//	5                  5 per second
//	5..50@30s          a ramp of half a minute, and then 50
//	5@10s,20@30s,5     steps
func Parse(text string) (Profile, error) {
	var p Profile
	for field := range strings.SplitSeq(text, ",") {
		s, err := parseSegment(strings.TrimSpace(field))
		if err != nil {
			return Profile{}, err
		}
		p.segments = append(p.segments, s)
	}
	if last := p.segments[len(p.segments)-1]; last.From != last.To && last.For > 0 {
		p.segments = append(p.segments, Segment{From: last.To, To: last.To})
	}
	return p, p.Validate()
}

func parseSegment(text string) (s Segment, err error) {
	rates, duration, timed := strings.Cut(text, "@")
	if timed {
		if s.For, err = time.ParseDuration(duration); err != nil || s.For <= 0 {
			return s, fmt.Errorf("pace: %q: %q is not a duration such as 30s", text, duration)
		}
	}
	from, to, ramp := strings.Cut(rates, "..")
	if s.From, err = strconv.ParseFloat(from, 64); err == nil && ramp {
		s.To, err = strconv.ParseFloat(to, 64)
	} else {
		s.To = s.From
	}
	if err != nil {
		return s, fmt.Errorf("pace: %q: want a rate such as 5, 5..50@30s or 5@10s,20", text)
	}
	return s, nil
}

// String formats the profile for Parse.
func (p Profile) String() string {
	var fields []string
	for i, s := range p.segments {
		if i > 0 && i == len(p.segments)-1 && s.For == 0 && s.From == p.segments[i-1].To &&
			p.segments[i-1].From != p.segments[i-1].To {
			break // what follows a ramp by itself
		}
		field := format(s.From)
		if s.To != s.From {
			field += ".." + format(s.To)
		}
		if s.For > 0 {
			field += "@" + s.For.String()
		}
		fields = append(fields, field)
	}
	return strings.Join(fields, ",")
}

func format(rate float64) string { return strconv.FormatFloat(rate, 'g', -1, 64) }

// until is the instant, in seconds since the segment's beginning, at which its
// integral is count: the root of From·t + (To−From)/(2·For)·t² = count. ok is
// false if the segment does not come to that.
func (s Segment) until(count float64) (seconds float64, ok bool) {
	if count > s.total() {
		return 0, false
	}
	if s.From == s.To {
		return count / s.From, s.From > 0
	}
	slope := (s.To - s.From) / s.For.Seconds()
	// The form that does not subtract nearly equal numbers.
	root := math.Sqrt(max(s.From*s.From+2*slope*count, 0))
	if s.From+root == 0 {
		return 0, true
	}
	return 2 * count / (s.From + root), true
}

// total is the number of requests that the segment offers.
func (s Segment) total() float64 {
	if s.For == 0 {
		if s.From == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return (s.From + s.To) / 2 * s.For.Seconds()
}
