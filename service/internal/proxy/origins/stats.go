package origins

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/service/internal/balance"
)

// A Stats holds the state of an origin and its counts since New.
type Stats struct {
	URL      string
	State    balance.State
	Until    time.Time              // the next trial of an ejected origin, or the end of a hold; otherwise zero
	Cause    balance.Cause          // of an ejection
	Limit    int                    // the sum of its adaptive limits; 0: it has none of its own
	MinLimit int                    // the lower bound of Limit
	Inflight int                    // requests that it works on, long-lived ones included
	Retried  uint64                 // requests that went to another origin, because this one did not answer
	Ejected  [balance.Causes]uint64 // how often it was ejected, by cause
	Signs    [loadsign.Count]uint64 // of its answers, and missing ones
}

// Stats returns the state of all origins.
func (s *Set) Stats() []Stats {
	stats := make([]Stats, len(s.list))
	now := time.Since(s.epoch)
	s.mu.Lock()
	for i := range stats {
		o := s.set.Origin(now, i)
		stats[i].State, stats[i].Cause, stats[i].Inflight = o.State, o.Cause, o.Inflight
		if o.Until > 0 {
			stats[i].Until = s.epoch.Add(o.Until)
		}
	}
	s.mu.Unlock()
	for i, o := range s.list {
		stats[i].URL, stats[i].Retried = o.name, o.retried.Load()
		for cause := range o.ejected {
			stats[i].Ejected[cause] = o.ejected[cause].Load()
		}
		for sign := range o.signs {
			stats[i].Signs[sign] = o.signs[sign].Load()
		}
	}
	return stats
}

// Out names the origins that are out, each with the cause.
func Out(of []Stats) (names []string) {
	for _, o := range of {
		switch o.State {
		case balance.Ejected:
			names = append(names, fmt.Sprintf("%s (%s)", o.URL, o.Cause))
		case balance.Held:
			names = append(names, o.URL+" (held)")
		}
	}
	return names
}

// A Report describes an origin. Counts are since the start.
type Report struct {
	URL      string            `json:"url"`
	State    string            `json:"state"`           // in, starting, ejected or held
	Cause    string            `json:"cause,omitempty"` // of an ejection: failures, connections, silence or check
	Limit    int               `json:"limit,omitempty"` // the sum of its adaptive limits; 0: it has none of its own
	Inflight int               `json:"inflight"`
	UntilMS  int64             `json:"until_ms,omitempty"` // the next trial of an ejected origin, or the end of a hold, since 1970
	Retried  uint64            `json:"retried"`            // requests that went to another origin, because this one did not answer
	Answers  map[string]uint64 `json:"answers"`            // and missing ones, by sign of load
}

// Report returns what operators see.
func (o *Stats) Report() Report {
	r := Report{URL: o.URL, State: o.State.String(), Cause: o.Cause.String(), Limit: o.Limit, Inflight: o.Inflight, Retried: o.Retried, Answers: map[string]uint64{}}
	if !o.Until.IsZero() {
		r.UntilMS = o.Until.UnixMilli()
	}
	for sign, n := range o.Signs {
		if n > 0 {
			r.Answers[loadsign.Sign(sign).String()] = n
		}
	}
	return r
}
