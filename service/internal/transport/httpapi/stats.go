package httpapi

import (
	"slices"
	"sync/atomic"
	"time"
)

// statuses are counted separately; any other counts as the first.
var statuses = [...]int{0, 200, 400, 401, 403, 404, 405, 408, 413, 415, 429, 499, 500, 503}

// count counts an answer of an endpoint.
func (a *API) count(endpoint, status int) {
	a.answers[endpoint][max(slices.Index(statuses[:], status), 0)].Add(1)
}

// A Count is the number of requests to an endpoint with a status. Path is a template, such as /rate/{key}; it and Method are
// empty if there is no such endpoint. Status 499 means that the client disconnected while it waited.
type Count struct {
	Method, Path string
	Status       int
	N            uint64
}

// Stats counts the requests to an API.
type Stats struct {
	Answers []Count // that are not zero
	Batched uint64  // requests in batches
	// Took are the times of requests for a key that did not wait, of one request in 64: Took[i] counts times longer than
	// LatencyBounds[i-1] and at most LatencyBounds[i]; the last has no upper bound. TookSum is the sum of the times.
	Took    []uint64
	TookSum time.Duration
	Limits  []Bound
}

// A Bound is the state of a connlimit.Limit.
type Bound struct {
	Name          string
	Places, Taken int64
	Refused       uint64
}

// LatencyBounds are the upper bounds of Stats.Took.
var LatencyBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond,
	2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, time.Second,
}

type latency struct {
	counts [len(LatencyBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (l *latency) add(d time.Duration) {
	i, _ := slices.BinarySearch(LatencyBounds[:], d)
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

// tookEvery is the number of requests of which the time of one is counted: to read the clock takes a tenth of a decision.
const tookEvery = 64

// Stats returns the counts.
func (a *API) Stats() Stats {
	st := Stats{Batched: a.batched.Load(), TookSum: time.Duration(a.took.sum.Load())}
	for i := range a.took.counts {
		st.Took = append(st.Took, a.took.counts[i].Load())
	}
	for _, l := range a.limits {
		places, taken, refused := l.Count()
		st.Limits = append(st.Limits, Bound{l.Kind().String(), places, taken, refused})
	}
	for i := range a.answers {
		for s := range statuses {
			n := a.answers[i][s].Load()
			if n == 0 {
				continue
			}
			c := Count{Status: statuses[s], N: n}
			if i < len(endpoints) {
				c.Method, c.Path = endpoints[i].method, endpoints[i].path()
			}
			st.Answers = append(st.Answers, c)
		}
	}
	return st
}
