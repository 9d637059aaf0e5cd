package main

import (
	"net/http"
	"strings"
	"testing"
)

// wait sends a request that waits, as the nth one, and returns a channel for its answer.
func (s *served) wait(path string, nth int) chan answered {
	s.t.Helper()
	answer := make(chan answered, 1)
	go func() {
		a, err := tryAsk(http.DefaultClient, "POST", s.public+path)
		if err != nil {
			a.body = err.Error()
		}
		answer <- a
	}()
	s.waiting(nth)
	return answer
}

const drainRules = `rules: [{name: soon, key: soon, rate: 60/m, burst: 1}, {name: late, key: late, rate: 1/h, max_wait: 9h}, {name: jobs, key: job, concurrency: {limit: 1}}, {name: rest, glob: "*", rate: 1/h}]`

// finish: waiting requests get their turn, no further request may wait, and requests
// without a wait are served.
func TestDrainFinish(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", drainRules))
	s.statuses("/rate/soon", 1)
	var waiters []chan answered
	for nth := 1; nth <= 3; nth++ {
		waiters = append(waiters, s.wait("/rate/soon?canWait=true", nth))
	}
	s.stop()
	s.until("msg=draining how=finish waiting=3")
	if a := ask(t, http.DefaultClient, "GET", s.admin+"/-/ready"); a.status != 503 {
		t.Errorf("ready: %v: want 503", a)
	}
	if a := s.post("/rate/soon?canWait=true"); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"reason":"closed"`) {
		t.Errorf("one more who would wait: %v: want 503, closed, and Retry-After", a)
	}
	if a := s.post("/rate/another"); a.status != 200 {
		t.Errorf("a decision: %v: want 200", a)
	}
	for i, w := range waiters {
		if a := <-w; a.status != 200 {
			t.Errorf("waiter %d: %v: want its turn", i, a)
		}
	}
	s.end()
}

// refuse: waiting requests are refused at once.
func TestDrainRefuse(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", drainRules), "--drain", "refuse")
	s.statuses("/rate/late", 1)
	s.statuses("/lease/job", 1)
	waiters := []chan answered{
		s.wait("/rate/late?canWait=true", 1), s.wait("/rate/late?canWait=true", 2), s.wait("/lease/job?canWait=true", 3),
	}
	s.end()
	for i, w := range waiters {
		if a := <-w; a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"reason":"closed"`) {
			t.Errorf("waiter %d: %v: want 503, closed, and Retry-After", i, a)
		}
	}
}

// Requests without a turn within the grace are refused, which is not an error.
func TestDrainGraceIsOver(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", drainRules), "--grace", "100ms")
	s.statuses("/rate/late", 1)
	waiter := s.wait("/rate/late?canWait=true", 1)
	s.end()
	if a := <-waiter; a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%v: want 503, and Retry-After", a)
	}
	if s.logged("refusing the requests that still wait") != 1 {
		t.Error("want that to be said")
	}
}

// Draining does not wait for a connection that never had a request.
func TestDrainSilentConnection(t *testing.T) {
	s := serving(t, "--grace", "0s")
	silent := dial(t, s.public, halfHeader)
	s.statuses("/rate/a", 1)
	s.end()
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes: want it closed", n)
	}
}
