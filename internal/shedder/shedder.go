// Package shedder decides which requests to reject while a resource is under pressure: a pure
// state machine for package pressure.
package shedder

import "time"

// A Level is the importance of a request.
type Level uint8

// The levels, the least important first.
const (
	Sheddable Level = iota
	SheddablePlus
	Critical
	CriticalPlus // is never rejected
	levels
)

const (
	// gain is how much more of the requests is rejected after a second of full pressure, and how
	// much less after one without pressure. Pressure is bounded, so that no reading changes the
	// rejected part by more than a few percent, however steeply pressure depends on load.
	gain = 0.1
	// longest bounds the time for which one reading counts: after an idle time, the pressure in
	// it says little about now.
	longest = 2 * time.Second
	// MostSheddable is the largest part of sheddable requests that is rejected, so that a
	// service without others does not stop while its neighbours use the resource.
	MostSheddable = 0.95

	// A trial of rejecting critical requests that rejects the largest part of them is judged after patience:
	// it has to lower the pressure by useful. If it does not, the pressure comes from elsewhere.
	// Then no critical request is rejected during a pause, which doubles each time.
	patience   = 5 * time.Second
	useful     = 0.1
	firstPause = 30 * time.Second
	lastPause  = 8 * time.Minute
)

// A Shedder rejects a part of the requests, the least important first. It raises that part
// while the pressure is above a bound, and lowers it below. Several Shedders of one resource
// reject the same part each, as one alone would.
//
// A Shedder must be used by one goroutine at a time. Time is that since an epoch of the caller.
type Shedder struct {
	max, mostCritical float64

	began       bool
	at, stalled time.Duration // the last reading
	pressure    float64
	shed        float64 // the part of all requests to reject
	arrived     [levels]float64
	ratio, owed [levels]float64 // by level: the part to reject, and what is left of it

	smooth  float64       // the pressure of the last few readings
	trial   bool          // critical requests are rejected
	before  float64       // the smooth pressure when the trial began
	bounded bool          // the trial rejects the largest part, mostCritical
	judged  time.Duration // when a bounded trial is judged
	paused  time.Duration // when the last pause ends, before which no trial begins
	pause   time.Duration // how long the next pause is
}

// New returns a Shedder with a bound of the pressure, between 0 and 1, and the largest part of
// critical requests to reject, from 0 to 1.
func New(maxPressure, mostCritical float64) *Shedder {
	return &Shedder{max: maxPressure, mostCritical: mostCritical, pause: firstPause}
}

// SetMax changes the bound of the pressure.
func (s *Shedder) SetMax(maxPressure float64) { s.max = maxPressure }

// Read takes a reading: the time in which work has stalled for the resource, since any instant
// in the past. A reading that is less than the one before begins a new count.
func (s *Shedder) Read(now, stalled time.Duration) {
	since, more := now-s.at, stalled-s.stalled
	fresh := !s.began || more < 0
	if since <= 0 && !fresh {
		return
	}
	s.began, s.at, s.stalled = true, now, stalled
	if fresh {
		return
	}
	s.pressure = min(float64(more)/float64(since), 1)
	excess := (s.pressure - s.max) / s.max
	if excess > 0 {
		excess = (s.pressure - s.max) / (1 - s.max)
	}
	for i := range s.arrived {
		s.arrived[i] /= 2 // the mix of the last few readings
	}
	s.smooth += (s.pressure - s.smooth) / 4
	s.shed += gain * excess * min(since, longest).Seconds()
	s.divide()
	s.advanceTrial(now)
}

// advanceTrial begins a trial when critical requests are first rejected. Once as many of them as
// possible have been rejected for patience, it judges the trial: if the pressure has not become
// lower by useful, the trial ends, and a pause begins.
func (s *Shedder) advanceTrial(now time.Duration) {
	switch {
	case s.ratio[Critical] == 0: // none is rejected any more
		if s.trial = false; s.smooth < s.max {
			s.pause = firstPause
		}
	case !s.trial:
		s.trial, s.before, s.bounded = true, s.smooth, false
	case s.ratio[Critical] < s.mostCritical*0.999: // more can be rejected; 0.999 allows for rounding
		s.bounded = false
	case !s.bounded:
		s.bounded, s.judged = true, now+patience
	case now < s.judged:
	case s.smooth > s.before-useful:
		s.trial, s.paused = false, now+s.pause
		s.pause = min(2*s.pause, lastPause)
		s.divide()
	}
}

// Lost tells that the pressure cannot be read: the Shedder does as if there were none.
func (s *Shedder) Lost(now time.Duration) {
	since := now - s.at
	if s.at, s.began, s.pressure = now, false, 0; since > 0 {
		s.shed -= gain * min(since, longest).Seconds()
		s.divide()
	}
}

// divide divides the part to reject among the levels, by how much of the requests each of
// them has had.
func (s *Shedder) divide() {
	all := 0.0
	for _, n := range s.arrived {
		all += n
	}
	most := [levels]float64{MostSheddable, MostSheddable, s.mostCritical}
	if s.at < s.paused {
		most[Critical] = 0
	}
	if all == 0 { // the mix is unknown until the next reading: never more than the part, nor critical requests
		s.shed = max(0, min(s.shed, MostSheddable))
		s.ratio = [levels]float64{Sheddable: s.shed, SheddablePlus: s.shed}
		return
	}
	bound, share := 0.0, [levels]float64{}
	for i := range share {
		share[i] = s.arrived[i] / all
		bound += share[i] * most[i]
	}
	s.shed = max(0, min(s.shed, bound))
	s.ratio = [levels]float64{}
	rest := s.shed
	for i := range share {
		switch room := share[i] * most[i]; {
		case rest < 1e-9: // what is less is an error of rounding
			s.owed[i] = 0
		case room <= rest:
			s.ratio[i] = most[i]
			rest -= room
		default:
			s.ratio[i] = rest / share[i]
			rest = 0
		}
	}
}

// Active reports whether the Shedder has to see requests: it rejects some of them, or may begin
// to. Without that, Admit needs no call.
func (s *Shedder) Active() bool { return s.shed > 0 || s.pressure > s.max/2 }

// Admit decides about a request. The rejected ones of a level are spread evenly.
func (s *Shedder) Admit(l Level) bool {
	s.arrived[l]++
	if s.owed[l] += s.ratio[l]; s.owed[l] < 1 {
		return true
	}
	s.owed[l]--
	return false
}

// Pressure returns the pressure at the last reading, from 0 to 1.
func (s *Shedder) Pressure() float64 { return s.pressure }

// Shed returns the part of all requests to reject, from 0 to 1.
func (s *Shedder) Shed() float64 { return s.shed }
