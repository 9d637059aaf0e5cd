package httpapi

import "slices"

// statuses are counted separately; any other counts as the first.
var statuses = [...]int{0, 200, 400, 401, 403, 404, 405, 408, 413, 415, 429, 499, 503}

// count counts an answer of an endpoint.
func (a *API) count(endpoint, status int) {
	a.answers[endpoint][max(slices.Index(statuses[:], status), 0)].Add(1)
}

// A Count is the number of requests to an endpoint with a status. Path is a
// template, such as /rate/{key}; it and Method are empty if there is no such
// endpoint. Status 499 means that the client disconnected while it waited.
type Count struct {
	Method, Path string
	Status       int
	N            uint64
}

// Stats counts the requests to an API.
type Stats struct {
	Answers []Count // that are not zero
	Batched uint64  // requests in batches
}

// Stats returns the counts.
func (a *API) Stats() Stats {
	st := Stats{Batched: a.batched.Load()}
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
