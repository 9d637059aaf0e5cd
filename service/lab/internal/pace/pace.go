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
	"slices"
	"strconv"
	"strings"
	"time"
)

// A segment of a Profile: the rate goes in a straight line.
type segment struct {
	from, to float64       // requests per second, >= 0
	length   time.Duration // 0, allowed only for the last, = for ever
}

// A Profile is an offered rate over time. After its last segment nothing is
// offered. The zero Profile offers nothing.
type Profile struct{ segments []segment }

// Constant offers a rate for ever.
func Constant(rate float64) Profile { return Profile{[]segment{{from: rate, to: rate}}} }

// Offers reports whether the profile offers anything at all.
func (p Profile) Offers() bool {
	return slices.ContainsFunc(p.segments, func(s segment) bool { return s.from > 0 || s.to > 0 })
}

// End returns the time after which the profile offers nothing. ok is false if it does not
// end.
func (p Profile) End() (end time.Duration, ok bool) {
	for _, s := range p.segments {
		if s.length == 0 { // the last one
			return end, s.from == 0
		}
		end += s.length
	}
	return end, true
}

// maxRate bounds a rate, in requests per second: an arrival each nanosecond.
const maxRate = 1e9

// Validate returns an error about the first segment that is not valid, or nil.
func (p Profile) Validate() error {
	for i, s := range p.segments {
		for _, rate := range []float64{s.from, s.to} {
			if !(rate >= 0 && rate <= maxRate) {
				return fmt.Errorf("pace: rate = %v: must be in [0, %v]", rate, maxRate)
			}
		}
		switch {
		case s.length == 0 && i < len(p.segments)-1:
			return fmt.Errorf("pace: segment %d has no duration, and is not the last", i+1)
		case s.length == 0 && s.from != s.to:
			return fmt.Errorf("pace: a ramp from %v to %v needs a duration", s.from, s.to)
		}
	}
	return nil
}

// Rate is λ(at), in requests per second.
func (p Profile) Rate(at time.Duration) float64 {
	for _, s := range p.segments {
		if s.length == 0 || at < s.length {
			if s.from == s.to {
				return s.from
			}
			return s.from + (s.to-s.from)*float64(at)/float64(s.length)
		}
		at -= s.length
	}
	return 0
}

// String formats the profile as Parse reads it.
func (p Profile) String() string {
	var segments []string
	for _, s := range p.segments {
		text := strconv.FormatFloat(s.from, 'g', -1, 64)
		if s.to != s.from {
			text += ".." + strconv.FormatFloat(s.to, 'g', -1, 64)
		}
		if s.length > 0 {
			text += "@" + s.length.String()
		}
		segments = append(segments, text)
	}
	return strings.Join(segments, ",")
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
	if last := p.segments[len(p.segments)-1]; last.from != last.to && last.length > 0 {
		p.segments = append(p.segments, segment{from: last.to, to: last.to})
	}
	return p, p.Validate()
}

func parseSegment(text string) (s segment, err error) {
	rates, duration, timed := strings.Cut(text, "@")
	rates = strings.TrimSuffix(rates, "/s")
	if timed {
		if s.length, err = time.ParseDuration(duration); err != nil || s.length <= 0 {
			return s, fmt.Errorf("pace: %q: %q is not a duration such as 30s", text, duration)
		}
	}
	from, to, ramp := strings.Cut(rates, "..")
	if s.from, err = strconv.ParseFloat(from, 64); err == nil && ramp {
		s.to, err = strconv.ParseFloat(to, 64)
	} else {
		s.to = s.from
	}
	if err != nil {
		return s, fmt.Errorf("pace: %q: want a rate such as 5, 5..50@30s or 5@10s,20", text)
	}
	return s, nil
}

// until is the instant, in seconds since the segment's beginning, at which its
// integral is count: the root of From·t + (To−From)/(2·For)·t² = count. ok is
// false if the segment does not come to that.
func (s segment) until(count float64) (seconds float64, ok bool) {
	if count > s.total() {
		return 0, false
	}
	if s.from == s.to {
		return count / s.from, s.from > 0
	}
	slope := (s.to - s.from) / s.length.Seconds()
	// The form that does not subtract nearly equal numbers.
	root := math.Sqrt(max(s.from*s.from+2*slope*count, 0))
	if s.from+root == 0 {
		return 0, true
	}
	return 2 * count / (s.from + root), true
}

// total is the number of requests that the segment offers.
func (s segment) total() float64 {
	if s.length == 0 {
		if s.from == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return (s.from + s.to) / 2 * s.length.Seconds()
}
