package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

// wait sends a request that waits, as the nth one, and returns a channel for its answer.
func (s *served) wait(path string, nth int) chan answered {
	s.t.Helper()
	answer := make(chan answered, 1)
	go func() {
		a, err := tryAsk(http.DefaultClient, "POST", s.public+path, s.authorization()...)
		if err != nil {
			a.body = err.Error()
		}
		answer <- a
	}()
	for s.status().Total.Waiting != nth {
		select {
		case a := <-answer:
			s.t.Fatalf("%+v: want it to wait", a)
		default:
		}
	}
	return answer
}

// giveBack gives back what an answer granted: the next request that waits gets its turn.
func (s *served) giveBack(client *http.Client, path string, a answered) {
	s.t.Helper()
	var granted struct {
		ID string `json:"request_id"`
	}
	fatal(s.t, json.Unmarshal([]byte(a.body), &granted))
	if a := ask(s.t, client, "DELETE", s.public+path+"/"+granted.ID, s.authorization()...); a.status != 200 {
		s.t.Fatalf("%v: want it given back", a)
	}
}

const drainRules = `rules: [{name: late, key: late, rate: 1/h, max_wait: 9h}, {name: jobs, key: job, concurrency: {limit: 1}}, {name: rest, glob: "*", rate: 1/h}]`

// finish: waiting requests get their turn, no further request may wait, and requests
// without a wait are served.
func TestDrainFinish(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", drainRules))
	granted := s.post("/rate/late")
	var waiters []chan answered
	for nth := 1; nth <= 3; nth++ {
		waiters = append(waiters, s.wait("/rate/late?canWait=true", nth))
	}
	s.stop()
	s.until("msg=draining how=finish waiting=3")
	if a := ask(t, http.DefaultClient, "GET", s.admin+"/-/ready"); a.status != 503 {
		t.Errorf("ready: %v: want 503", a)
	}
	if a := s.post("/rate/late?canWait=true"); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"reason":"closed"`) {
		t.Errorf("one more who would wait: %v: want 503, closed, and Retry-After", a)
	}
	if a := s.post("/rate/another"); a.status != 200 {
		t.Errorf("a decision: %v: want 200", a)
	}
	for i, w := range waiters {
		s.giveBack(http.DefaultClient, "/rate/late", granted)
		if granted = <-w; granted.status != 200 {
			t.Errorf("waiter %d: %v: want its turn", i, granted)
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

// The peers of an instance decide whatever it has accepted: a request that waits, also of a key that it owned, gets its turn
// there. While one waits, another one is not refused because the instance ends.
func TestDrainToPeers(t *testing.T) {
	hosts := []string{"127.0.0.1:" + redistest.FreePort(t), "127.0.0.1:" + redistest.FreePort(t)}
	rules := file(t, "rules.yaml", `rules: [{name: late, glob: "*", rate: 1/h, max_wait: 9h}]`)
	var members []*served
	for _, host := range hosts {
		members = append(members, serving(t, "--rules", rules, "--listen", host, "--resp-listen", "127.0.0.1:0", "--peers", "http://"+hosts[0]+",http://"+hosts[1]))
	}
	redistest.Until(t, "peers", func() error {
		for _, s := range members {
			if status := ask(t, http.DefaultClient, "GET", s.admin+"/-/status").body; strings.Count(status, `"status":"live"`) != 2 || !strings.Contains(status, `"quorum":true`) {
				return fmt.Errorf("%s", status)
			}
		}
		return nil
	})
	stays, leaves := members[0], members[1]
	const keys = 8 // of both owners
	var granted [keys]answered
	var waiters [keys]chan answered
	path := func(i int) string { return fmt.Sprintf("/rate/%d", i) }
	for i := range keys {
		granted[i] = stays.post(path(i))
		waiters[i] = make(chan answered, 1)
		go func() {
			a, _ := tryAsk(http.DefaultClient, "POST", leaves.public+path(i)+"?canWait=true")
			waiters[i] <- a
		}()
	}
	redistest.Until(t, "requests that wait", func() error {
		if is := stays.status().Total.Waiting + leaves.status().Total.Waiting; is != keys {
			return fmt.Errorf("%d", is)
		}
		return nil
	})
	nc, err := net.Dial("tcp", leaves.resp())
	idle := respOver(t, nc, err)
	idle.send("PING")
	idle.wants("+PONG")
	leaves.stop()
	leaves.until("msg=draining how=finish")
	if rest, err := io.ReadAll(idle.in); err != nil || len(rest) > 0 { // while others wait
		t.Errorf("a client of Redis: %q, %v: want its connection closed", rest, err)
	}
	for i := range keys {
		if a, err := tryAsk(http.DefaultClient, "POST", leaves.public+path(i)+"?canWait=true&timeout=1ms"); err == nil && a.status != 429 {
			t.Errorf("one more who would wait: %v: want 429, or no connection", a)
		}
	}
	for i, w := range waiters {
		stays.giveBack(http.DefaultClient, path(i), granted[i])
		if a := <-w; a.status != 200 {
			t.Errorf("waiter %d: %v: want its turn", i, a)
		}
	}
	leaves.end()
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
