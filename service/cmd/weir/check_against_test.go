//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-go/weir/service/internal/rulecheck"
)

// against returns what weir check --against says as JSON, and its exit status.
func against(t *testing.T, args ...string) (rulecheck.Against, int, string) {
	t.Helper()
	code, stdout, stderr := weir(t, append([]string{"check", "--json"}, args...)...)
	var a rulecheck.Against
	if err := json.Unmarshal([]byte(stdout), &a); err != nil {
		t.Fatalf("%v: %d, %s, %s", err, code, stdout, stderr)
	}
	return a, code, stderr
}

// A server with the rules denies as many of the same requests as weir check --against says, by every transport.
func TestCheckAgainst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "decisions")
	old := file(t, "old.yaml", `rules: [{name: all, glob: "*", rate: 100/d, queue: 0, own_quota: true}]`)
	rules := file(t, "new.yaml", `rules:
- {name: logins, glob: "login:*", rate: 7/d, queue: 0}
- {name: users, domain: edge, entries: {user: "*"}, rate: 5/d, queue: 0}
- {name: rest, regex: "^[a-z]+:[0-9]+$", rate: 9/d, per: rule, queue: 0, own_quota: true}`)
	was := serving(t, "--rules", old, "--record-decisions", dir, "--resp-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	is := serving(t, "--rules", rules, "--resp-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	wanted := 0 // denials of is
	note := func(denied bool) {
		if denied {
			wanted++
		}
	}
	requests := 0
	for i := range 20 {
		for _, key := range []string{"login:jane", "login:bob", fmt.Sprintf("user:%d", i%4), "other"} {
			_ = was.post("/rate/" + key)
			note(is.post("/rate/"+key).status == 429)
			requests++
		}
	}
	var clients []*respClient
	var limiters []limiter
	for _, s := range []*served{was, is} {
		address := s.resp()
		nc, err := net.Dial("tcp", address)
		clients = append(clients, respOver(t, nc, err))
		limiters = append(limiters, newLimiter(t, s.grpcAddress()))
	}
	for range 12 {
		for i, c := range clients {
			c.send("CL.THROTTLE user:77 2 3 86400")
			c.wants("*5")
			line, err := c.in.ReadString('\n')
			fatal(t, err)
			note(i == 1 && strings.TrimSpace(line) == ":1")
			for range 4 {
				_, err := c.in.ReadString('\n')
				fatal(t, err)
			}
		}
		for i, l := range limiters {
			code, err := l.ask(t.Context(), "jane")
			fatal(t, err)
			note(i == 1 && code == rls.RateLimitResponse_OVER_LIMIT)
		}
		requests += 2
	}
	a := ask(t, http.DefaultClient, "GET", was.admin+"/metrics")
	if !strings.Contains(a.body, "weir_decisions_lost_total 0") || !strings.Contains(a.body, "weir_decisions_size_bytes") {
		t.Error("the metrics of decisions are missing")
	}
	was.end()
	is.end()
	got, code, stderr := against(t, "--against", dir, rules)
	if code != 0 || stderr != "" || got.Requests != requests || got.Denied.Now != wanted || got.Unknown.Requests != 0 {
		t.Errorf("%d, %s: %+v: want %d requests, %d denied", code, stderr, got, requests, wanted)
	}
	if _, code, stderr = against(t, "--against", dir, "--max-denied", "0.1%", rules); code != 1 || !strings.Contains(stderr, "of the requests would be denied more: at most 0.1 % may be") {
		t.Errorf("%d, %s: want a failure", code, stderr)
	}
	if got, code, stderr = against(t, "--against", dir, "--max-denied", "0", old); code != 0 || got.More+got.Less != 0 {
		t.Errorf("the same rules: %d, %s, %+v", code, stderr, got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	fatal(t, err)
	for _, path := range files {
		data, err := os.ReadFile(path)
		fatal(t, err)
		for _, text := range []string{"jane", "login", "user"} {
			if strings.Contains(string(data), text) {
				t.Errorf("%s has the text %s", path, text)
			}
		}
	}
}

// The salt can be kept apart, restarts keep it, and reloads end no recording.
func TestCheckAgainstSalt(t *testing.T) {
	dir, salt := t.TempDir(), filepath.Join(t.TempDir(), "salt")
	rules := file(t, "rules.yaml", `rules: [{name: none, glob: "a:*", rate: 0/s, queue: 0}]`)
	for range 2 {
		s := serving(t, "--rules", rules, "--record-decisions", dir, "--decisions-salt-file", salt)
		_ = s.post("/rate/a:1")
		if a := s.reload(); a.status != 200 {
			t.Error(a)
		}
		_ = s.post("/rate/a:1")
		s.end()
	}
	if code, _, stderr := weir(t, "check", "--against", dir, rules); code != 1 || !strings.Contains(stderr, "give it as --salt-file") {
		t.Errorf("%d, %s: want that the salt is missing", code, stderr)
	}
	got, code, stderr := against(t, "--against", dir, "--salt-file", salt, rules, "a:1")
	if code != 0 || got.Requests != 4 || got.Keys != 1 || got.Denied != (rulecheck.Denials{Then: 4, Now: 4}) || got.Top[0].Key != "a:1" {
		t.Errorf("%d, %s: %+v", code, stderr, got)
	}
}

// A recording without requests says nothing about rules: it is no success for --max-denied.
func TestCheckAgainstNothing(t *testing.T) {
	dir, rules := t.TempDir(), file(t, "rules.yaml", `rules: []`)
	serving(t, "--rules", rules, "--record-decisions", dir).end()
	if code, stdout, _ := weir(t, "check", "--against", dir, rules); code != 0 || !strings.Contains(stdout, "no requests are recorded") {
		t.Errorf("%d, %s", code, stdout)
	}
	if code, _, stderr := weir(t, "check", "--against", dir, "--max-denied", "1%", rules); code != 1 || !strings.Contains(stderr, "--max-denied: no requests are recorded") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// A directory that cannot be written is an error at the start.
func TestRecordDecisionsUnusable(t *testing.T) {
	path := file(t, "a", "")
	args := serveArgs([]string{"--record-decisions", filepath.Join(path, "b")})
	if code, _, stderr := weir(t, args...); code != 1 || !strings.Contains(stderr, "--record-decisions: ") {
		t.Errorf("%d, %s", code, stderr)
	}
	args = serveArgs([]string{"--record-decisions", t.TempDir(), "--decisions-separators", "a"})
	if code, _, stderr := weir(t, args...); code != 2 || !strings.Contains(stderr, `--decisions-separators="a": must be`) {
		t.Errorf("%d, %s", code, stderr)
	}
	args = serveArgs([]string{"--decisions-salt-file", path})
	if code, _, stderr := weir(t, args...); code != 2 || !strings.Contains(stderr, "--decisions-salt-file needs --record-decisions") {
		t.Errorf("%d, %s", code, stderr)
	}
}
