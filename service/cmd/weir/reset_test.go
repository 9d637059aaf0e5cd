package main

import (
	"strings"
	"testing"
)

// weir reset gives a key its whole limit again. A key without a rate, a wrong key and a server that
// is away are errors, after which the other keys are still reset.
func TestReset(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", `rules: [{name: user, glob: "user:*", rate: 2/h}, {key: job, concurrency: {limit: 1}}]`))
	s.statuses("/rate/user:1", 3)
	code, stdout, stderr := weir(t, "reset", "--admin", s.admin, "job", "user:1", "user:2")
	if code != 1 || stdout != "user:1: rule user: 2 tokens returned\nuser:2: rule user: 0 tokens returned\n" || !strings.Contains(stderr, "job: 404 Not Found: no rule with a rate matches this key") {
		t.Errorf("%d, %s, %s", code, stdout, stderr)
	}
	if got := s.statuses("/rate/user:1", 3); got[1] != 200 || got[2] != 429 {
		t.Errorf("%v", got)
	}
	if code, stdout, _ := weir(t, "reset", "--json", "--admin", s.admin, "user:1"); code != 0 || stdout != `{"key":"user:1","rules":[{"rule":"user","returned":2}]}`+"\n" {
		t.Errorf("%d, %s", code, stdout)
	}
	for args, want := range map[string]string{
		"--admin=here:x/ a":             "here:x/: must be",
		"--admin=unix:/run/a.sock a":    "unix:/run/a.sock: must be an http or https URL of --admin, such as http://127.0.0.1:8081",
		"--admin=http://127.0.0.1:1 a":  "nothing listens at",
		"--admin=" + s.admin + " \x01a": "control characters",
		"--admin=" + s.public + " a":    "404 Not Found",
		"--timeout=0s a":                "--timeout=0s: must be >= 1ms",
	} {
		if code, _, stderr := weir(t, append([]string{"reset"}, strings.Split(args, " ")...)...); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: %d, %s: want %s", args, code, stderr, want)
		}
	}
	s.end()
}

// An instance with an upstream says where to reset.
func TestResetUpstream(t *testing.T) {
	rules := file(t, "rules.yaml", `rules: [{name: user, glob: "*", rate: 3/h}]`)
	up := serving(t, "--rules", rules)
	leaf := serving(t, "--rules", rules, "--upstream", up.public)
	if code, _, stderr := weir(t, "reset", "--admin", leaf.admin, "a"); code != 1 || !strings.Contains(stderr, "409 Conflict: the limits of this key belong to the upstream: reset it there (POST /-/reset at "+up.public) {
		t.Errorf("%d, %s", code, stderr)
	}
	leaf.end()
	up.end()
}
