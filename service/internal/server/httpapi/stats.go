package httpapi

import "sync/atomic"

// statuses are those that are told apart; all others are counted with the first.
var statuses = [...]int{0, 200, 400, 401, 403, 404, 405, 408, 413, 415, 429, 499, 503}

// counts are how many requests had which answer, and how many were in batches.
type counts struct {
	answers [][len(statuses)]atomic.Uint64 // of endpoints, and of none
	batched atomic.Uint64
}

func (c *counts) add(endpoint, status int) {
	i := 0
	for s := range statuses {
		if statuses[s] == status {
			i = s
			break
		}
	}
	c.answers[endpoint][i].Add(1)
}

// A Count is how many requests to an endpoint had a status. Method and Path are
// empty for those to none; the Path is a template, such as /rate/{key}. The status
// 499 is that of callers who left while they waited.
type Count struct {
	Method, Path string
	Status       int
	N            uint64
}

// Stats counts what an API has done.
type Stats struct {
	Answers []Count // that there have been
	Batched uint64  // requests in batches
}

// Stats returns the counts.
func (a *API) Stats() Stats {
	st := Stats{Batched: a.counts.batched.Load()}
	for i := range a.counts.answers {
		for s := range statuses {
			n := a.counts.answers[i][s].Load()
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
