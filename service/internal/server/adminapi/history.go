package adminapi

import (
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server"
)

// A Sample is an instant in the past, with the rates before it.
type Sample struct {
	AtMS     int64   `json:"at_ms"`
	Allowed  float64 `json:"allowed"`
	Denied   float64 `json:"denied"`
	Shadowed float64 `json:"shadowed"`
	Waiting  int     `json:"waiting"` // at that moment, for tokens and for leases
	Leases   int     `json:"leases"`  // units held at that moment
	Reloads  uint64  `json:"reloads"` // loads of rules until then
}

// A reading has all counters at an instant, by the name of the rule; "" is for keys
// that no rule matches.
type reading struct {
	rules   map[string]count
	waiting int
	leases  int
	reloads uint64
	at      time.Time
}

func (a *API) read(st server.Stats) reading {
	r := reading{rules: make(map[string]count, len(st.Rules)+1), at: time.Now(), reloads: st.Reloads, waiting: a.cfg.Server.Waiting()}
	for i := range st.Rules {
		s := &st.Rules[i]
		r.rules[s.Rule.Name] = countOf(s)
		r.leases += s.Leases.Held
	}
	r.rules[""] = count{flow: unmatched(st)}
	return r
}

// total returns the rates of all rules since another reading.
func (r reading) total(then reading) Flow[float64] {
	var f Flow[uint64]
	for name, n := range r.rules {
		f.add(n.flow, then.rules[name].flow)
	}
	return perSecond(f, r.at.Sub(then.at))
}

// history has recent readings.
type history struct {
	mu      sync.Mutex // guards what follows
	last    reading
	recent  recent[reading]
	samples operator.History[Sample]
}

// add records a reading.
func (h *history) add(r reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.at.IsZero() {
		f := r.total(h.last)
		h.samples.Add(r.at.UnixMilli(), Sample{
			AtMS: r.at.UnixMilli(), Allowed: f.Allowed, Denied: f.Denied, Shadowed: f.Shadowed,
			Waiting: r.waiting, Leases: r.leases, Reloads: r.reloads,
		})
	}
	h.last = r
	h.recent.add(r.at, r)
}

// since returns the samples that are newer than an instant.
func (h *history) since(ms int64) []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.samples.Since(ms)
}

// base returns the reading to compute rates from.
func (h *history) base() (reading, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.base(time.Now())
}

// recent keeps the last readings that are some seconds apart, to compute rates from.
type recent[T any] struct {
	at  [3]time.Time // times of the readings, the newest first; the zero Time marks an empty place
	was [3]T
}

const (
	apart    = 5 * time.Second
	tooYoung = apart / 10 // for a rate
	tooOld   = time.Minute
)

func (r *recent[T]) add(at time.Time, v T) {
	if at.Sub(r.at[0]) < apart {
		return
	}
	r.at[2], r.at[1], r.at[0] = r.at[1], r.at[0], at
	r.was[2], r.was[1], r.was[0] = r.was[1], r.was[0], v
}

// base returns the oldest reading of suitable age; false if there is none.
func (r *recent[T]) base(now time.Time) (v T, ok bool) {
	for i := len(r.at) - 1; i >= 0; i-- {
		if age := now.Sub(r.at[i]); age <= tooOld && age >= tooYoung {
			return r.was[i], true
		}
	}
	return v, false
}
