// Package incident finds out from a recording what happened to a service: the cause of an incident, when it began, and a
// setting that would have kept it small.
package incident

import "time"

// A Cause is the class of what went wrong.
type Cause string

// The causes.
const (
	None         Cause = "none"          // no incident begins within the recording
	Slow         Cause = "slow"          // work takes longer, with as many requests at work as before
	LostCapacity Cause = "lost_capacity" // work takes as long as before, but fewer requests are worked on at a time
	RetryStorm   Cause = "retry_storm"   // callers repeat requests that were not served, and so keep others from being served
	BadOrigin    Cause = "bad_origin"    // one origin of several fails or is slow, and the others are as before
	HeavyRoute   Cause = "heavy_route"   // a class appears or grows, the work of which is much more than that of the others
	Demand       Cause = "demand"        // more requests come than before, so they take longer or are not served
	Unknown      Cause = "unknown"       // fewer requests are served, and none of the causes above explains it
)

// An Incident describes what happened. Instants are seconds since the first request of the recording came.
type Incident struct {
	Cause  Cause   `json:"cause"`
	Also   []Cause `json:"also"`   // causes that explain the recording about as well
	Origin uint8   `json:"origin"` // of bad_origin, and of lost_capacity if an origin gets no more requests; else 0
	Class  string  `json:"class"`  // of heavy_route

	// Began is when it began, and Low and High bound that with 95 %. Ended is null if it went on to the end.
	Began *float64   `json:"began"`
	Low   *float64   `json:"low"`
	High  *float64   `json:"high"`
	At    *time.Time `json:"at"` // Began on the clock
	Ended *float64   `json:"ended"`

	Evidence []Evidence `json:"evidence"`
	Doubts   []string   `json:"doubts"` // what the data cannot tell
	Setting  *Setting   `json:"setting"`

	// Others are the further incidents of the recording that cost requests, in the order of time. They have no Setting.
	Others []*Incident `json:"others,omitempty"`

	workers int // of the service before; 0 if they are not known
}

// Evidence is a quantity before and during the incident.
type Evidence struct {
	What   string  `json:"what"` // such as "requests that came"
	Unit   Unit    `json:"unit"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Chance float64 `json:"chance"` // the probability of such a difference if nothing changed
}

// A Unit says how to print a quantity.
type Unit string

// The units.
const (
	PerSecond Unit = "1/s"
	Seconds   Unit = "s"
	Share     Unit = "share" // 0 to 1
	Count     Unit = "count"
)

// A Setting would have kept the incident small. Figures are of the time from Began to Ended, of the others, too.
type Setting struct {
	Limit       string   `json:"limit"`    // auto, or a number of requests in flight; 0 takes an origin out
	Queue       *int     `json:"queue"`    // requests that may wait; null is the default
	MaxWait     *float64 `json:"max_wait"` // seconds; null is the default
	RetryBudget *float64 `json:"retry_budget"`
	Origin      uint8    `json:"origin"` // if not 0, the limit is for this origin; auto is for each
	Class       string   `json:"class"`  // the limit is for this class alone, if not empty

	// InForce reports whether it was in force: no other limit serves more.
	InForce bool `json:"in_force"`
	// Replayed reports whether a replay shows the setting. Without one, the figures are null.
	Replayed bool     `json:"replayed"`
	Served   *float64 `json:"served"`   // requests that would have been served
	Could    *float64 `json:"could"`    // requests that could have been served at most
	Happened *float64 `json:"happened"` // requests that were served
}
