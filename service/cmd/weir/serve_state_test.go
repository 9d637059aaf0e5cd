package main

import (
	"errors"
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

// While the state cannot be saved, the server serves on and reports it. The last good file
// is kept, and saves go on as soon as they can.
func TestServeStateFault(t *testing.T) {
	for _, row := range []struct {
		what        string
		begin, mend func(state string) error
	}{
		{"the directory is gone",
			func(state string) error { return os.Rename(filepath.Dir(state), filepath.Dir(state)+".away") },
			func(state string) error { return os.Rename(filepath.Dir(state)+".away", filepath.Dir(state)) }},
		{"a file is in place of the directory",
			func(state string) error {
				dir := filepath.Dir(state)
				return errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600))
			},
			func(state string) error {
				dir := filepath.Dir(state)
				return errors.Join(os.Remove(dir), os.Rename(dir+".away", dir))
			}},
		{"a directory is in place of the file",
			func(state string) error { return errors.Join(os.Rename(state, state+".away"), os.Mkdir(state, 0o700)) },
			func(state string) error { return errors.Join(os.Remove(state), os.Rename(state+".away", state)) }},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			fatal(t, os.Mkdir(dir, 0o700))
			outlives(t, filepath.Join(dir, "state"), row.begin, row.mend)
		})
	}
}

// outlives checks that a server outlives a fault of the disk that its state is on.
func outlives(t *testing.T, state string, begin, mend func(state string) error) {
	t.Helper()
	text := `rules: [{name: a, glob: "*", rate: 3/h}]`
	rules := file(t, "rules.yaml", text)
	s := serving(t, "--rules", rules, "--state", state, "--watch-interval", "1h", "--state-interval", "1h")
	save := func(log string) { // a change of the rules has the state saved at once
		t.Helper()
		text += "\n"
		fatal(t, os.WriteFile(rules, []byte(text), 0o600))
		if a := s.reload(); a.status != 200 {
			t.Errorf("%v: want 200", a)
		}
		s.until(log)
	}
	if got := s.statuses("/rate/a", 1); got[0] != 200 {
		t.Errorf("%v: want 200", got)
	}
	before, err := os.ReadFile(state)
	fatal(t, err)

	fatal(t, begin(state))
	save("the state was not saved")
	if got := s.statuses("/rate/a", 1); got[0] != 200 {
		t.Errorf("%v: want 200 while the state cannot be saved", got)
	}
	if a := ask(t, http.DefaultClient, "GET", s.admin+"/metrics"); !strings.Contains(a.body, "\nweir_state_save_failures_total 1\n") {
		t.Error("the metric does not tell")
	}
	fatal(t, mend(state))
	if after, err := os.ReadFile(state); err != nil || !slices.Equal(before, after) {
		t.Errorf("%v: the last good file is not as it was", err)
	}
	if left, _ := filepath.Glob(state + ".new"); len(left) > 0 {
		t.Errorf("%q is left", left)
	}

	save("the state is saved again")
	s.killed(state)
	s = serving(t, "--rules", rules, "--state", state)
	if got := s.statuses("/rate/a", 2); got[0] != 200 || got[1] != 429 {
		t.Errorf("%v: want 200 and 429: two of three tokens were used", got)
	}
	s.end()
}
