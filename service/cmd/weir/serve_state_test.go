package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// killed ends a server as kill -9 does: what it would save at its end is lost.
func (s *served) killed(state string) {
	s.t.Helper()
	saved, err := os.ReadFile(state)
	fatal(s.t, err)
	s.end()
	fatal(s.t, os.WriteFile(state, saved, 0o600))
}

// After a crash, leases that the state does not know are neither lost nor granted
// again: their holders renew them, and new leases wait until others must have expired.
func TestServeCrash(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{glob: "*", concurrency: {limit: 10, ttl: 1h, max_ttl: 2h}}]`)
	state := filepath.Join(t.TempDir(), "state")
	s := serving(t, "--rules", rules, "--state", state)
	var ids []string
	for range 10 {
		a := s.post("/lease/job")
		_, rest, _ := strings.Cut(a.body, `"lease_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
	}
	s.killed(state)

	s = serving(t, "--rules", rules, "--state", state)
	s.until("new leases wait")
	if a := s.post("/lease/job"); a.status != 429 || len(a.header.Get("Retry-After")) != len("7200") {
		t.Errorf("%v: want 429, and Retry-After of about two hours", a)
	}
	for _, id := range ids {
		if a := s.post("/lease/job/" + id); a.status != 200 {
			t.Errorf("%s is renewed: %v", id, a)
		}
	}
	s.end()

	s = serving(t, "--rules", rules, "--state", state) // it has ended well, but while it recovered
	s.until("new leases wait")
	for _, id := range ids {
		if a := ask(t, http.DefaultClient, "DELETE", s.public+"/lease/job/"+id); a.status != 200 && a.status != 204 {
			t.Errorf("%s is returned: %v", id, a)
		}
	}
	if a := s.post("/lease/job"); a.status != 429 {
		t.Errorf("%v: want 429", a)
	}
	s.end()
}

// A start that fails writes nothing.
func TestServeFailedStartKeepsState(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: a, glob: "*", rate: 2/h}]`)
	state := filepath.Join(t.TempDir(), "state")
	s := serving(t, "--rules", rules, "--state", state)
	s.statuses("/rate/a", 2)
	s.end()
	before, err := os.ReadFile(state)
	fatal(t, err)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	defer taken.Close()
	for _, args := range [][]string{{"--listen", taken.Addr().String()}, {"--listen", "127.0.0.1:0", "--admin", taken.Addr().String()}} {
		if code, _, stderr := weir(t, append([]string{"serve", "--admin", "127.0.0.1:0", "--state", state}, args...)...); code != 1 {
			t.Errorf("%d, %s: want a port that is taken", code, stderr)
		}
		if after, err := os.ReadFile(state); err != nil || !slices.Equal(before, after) {
			t.Errorf("%v: a start that failed has written the state", err)
		}
	}
}

// A start with other rules keeps the counts and leases of the rules that are missing.
func TestServeOtherRulesKeepState(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: a, glob: "rate:*", rate: 2/h}, {name: b, glob: "job:*", concurrency: {limit: 1, ttl: 1h}}]`)
	state := filepath.Join(t.TempDir(), "state")
	s := serving(t, "--rules", rules, "--state", state)
	s.statuses("/rate/rate:a", 2)
	s.post("/lease/job:a")
	s.end()
	for range 2 {
		s = serving(t, "--state", state) // without the rules
		s.until("not restored")
		s.end()
	}
	s = serving(t, "--rules", rules, "--state", state)
	if got := s.statuses("/rate/rate:a", 1); got[0] != 429 {
		t.Errorf("%v: want the counts of before", got)
	}
	if got := s.statuses("/lease/job:a", 1); got[0] != 429 {
		t.Errorf("%v: want the lease of before", got)
	}
	s.end()
}

// Two instances cannot use one state file.
func TestServeStateIsLocked(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := serving(t, "--state", state)
	code, _, stderr := weir(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--state", state)
	if code != 1 || !strings.Contains(stderr, "another process uses it") {
		t.Errorf("%d, %s", code, stderr)
	}
	s.end()
	serving(t, "--state", state).end()
}
