//go:build system

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

const startRules = `rules:
  - {name: tokens, key: tokens, rate: 12/h}
  - {name: windows, key: windows, rate: 12/h, algorithm: sliding}
  - {name: jobs, key: jobs, concurrency: {limit: 12}}
`

// storePermissions returns the permissions that docs/redis.md states for weir serve.
func storePermissions(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/redis.md")
	fatal(t, err)
	m := regexp.MustCompile("`ACL SETUSER weir on >PASSWORD ~weir:\\* (.+)`").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/redis.md does not state them")
	}
	return strings.Fields(string(m[1]))
}

// A server speaks TLS, wants certificates of clients, and has a user with the permissions of
// docs/redis.md and no others. Every call works.
func TestStoreSecure(t *testing.T) {
	ca := newAuthority(t, "ours")
	files := newTLSFiles(t, ca)
	secure := redistest.FreePort(t)
	store := redistest.Start(t, "redis-server", "--tls-port", secure, "--tls-cert-file", files.cert, "--tls-key-file", files.key,
		"--tls-ca-cert-file", files.ca, "--tls-auth-clients", "yes")
	store.Do(append([]string{"ACL", "SETUSER", "weir", "on", ">secret", "~weir:*"}, storePermissions(t)...)...)
	connect := func(query url.Values, more ...string) *served {
		query.Set("ca", files.ca)
		url := "rediss://weir:secret@127.0.0.1:" + secure + "?" + query.Encode()
		return serving(t, append(more, "--rules", file(t, "rules.yaml", startRules), "--store", url)...)
	}
	for range 2 { // the second one reads the secret of the first
		connect(url.Values{"cert": {files.cert}, "key": {files.key}}, "--store-timeout", "2s").useAll()
	}
	if log := store.Do("ACL", "LOG"); log != "" {
		t.Errorf("the server has refused: %s", log)
	}
	connect(url.Values{}, "--instances", "3").decidesByShare("certificate")
}

// useAll uses what needs permissions: the store decides.
func (s *served) useAll() {
	s.t.Helper()
	for _, path := range []string{"/rate/tokens", "/rate/windows"} {
		fatal(s.t, s.tryPost(path))
	}
	a := s.post("/rate/tokens")
	s.giveBack(http.DefaultClient, "/rate/tokens", a)
	lease := s.lease("jobs")
	if a := s.post("/lease/jobs?n=12&canWait=true&timeout=50ms"); a.status != http.StatusTooManyRequests {
		s.t.Errorf("a lease that does not fit: %v", a)
	}
	fatal(s.t, s.tryPost(lease))
	if a := ask(s.t, http.DefaultClient, "DELETE", s.public+lease); a.status >= 300 {
		s.t.Errorf("a lease goes back: %v", a)
	}
}

// decidesByShare checks that one of three instances decides by its share without the store, and
// logs why once.
func (s *served) decidesByShare(why string) {
	s.t.Helper()
	const instances, limit = 3, 12
	granted := 0
	for range limit {
		a := s.post("/rate/tokens")
		if a.status == http.StatusOK {
			granted++
		}
		if a.header.Get("Weir-Degraded") != "share" {
			s.t.Errorf("%v: want a decision by share", a)
		}
	}
	if granted != limit/instances {
		s.t.Errorf("%d tokens, want the share of %d", granted, limit/instances)
	}
	line := s.until("the store does not answer: decisions are degraded")
	if !strings.Contains(line, why) || !strings.Contains(line, "level=ERROR") || strings.Contains(line, "secret") {
		s.t.Errorf("%s: want the reason: %s", line, why)
	}
	if a := ask(s.t, http.DefaultClient, "GET", s.admin+"/-/status"); !strings.Contains(a.body, `"away":true`) {
		s.t.Errorf("%v: want a status that says so", a)
	}
}

// Without a permission, the log tells which, and the instance decides by its share.
func TestStoreNotPermitted(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	for _, missing := range []string{"+evalsha", "+time", "+psetex", "~weir:*"} {
		t.Run(missing, func(t *testing.T) {
			args := []string{"ACL", "SETUSER", "weir", "reset", "on", ">secret"}
			for _, p := range append(storePermissions(t), "~weir:*") {
				if p != missing {
					args = append(args, p)
				}
			}
			store.Do(args...)
			why := "command"
			switch missing {
			case "~weir:*":
				why = "keys"
			case "+evalsha":
				why = "NOPERM"
			}
			s := serving(t, "--rules", file(t, "rules.yaml", startRules), "--store", "redis://weir:secret@"+store.Addr, "--instances", "3", "--store-known", "0s")
			s.decidesByShare(why)
		})
	}
}

// If only some calls are not permitted, the log tells why, and the store decides the others.
func TestStorePartlyPermitted(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	store.Do(append([]string{"ACL", "SETUSER", "weir", "on", ">secret", "~weir:*", "-@all"}, slices.DeleteFunc(storePermissions(t), func(p string) bool { return p == "+set" })...)...)
	s := serving(t, "--rules", file(t, "rules.yaml", startRules), "--store", "redis://weir:secret@"+store.Addr, "--store-timeout", "2s")
	if line := s.until("the store has refused a call"); !strings.Contains(line, "can't run this command") {
		t.Errorf("%s: want the reason", line)
	}
	fatal(t, s.tryPost("/rate/tokens"))
}

// A store that cannot be used at the start does not keep the process from starting: it decides
// by its share, and says why.
func TestStoreAwayAtStart(t *testing.T) {
	t.Parallel()
	locked := redistest.Start(t, "redis-server", "--requirepass", "right")
	for name, try := range map[string]struct{ url, why string }{
		"wrong password": {"redis://:secret@" + locked.Addr, "WRONGPASS"},
		"no password":    {"redis://" + locked.Addr, "NOAUTH"},
		"unreachable":    {"redis://127.0.0.1:" + redistest.FreePort(t), "connection refused"},
		"no TLS":         {"rediss://" + locked.Addr, "no answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, "--rules", file(t, "rules.yaml", startRules), "--store", try.url, "--instances", "3")
			s.decidesByShare(try.why)
			if st := s.status(); !st.Ready {
				t.Error("it is not ready")
			}
		})
	}
}

// With --store-required, an instance is ready once the store has answered, and then stays ready.
func TestStoreRequired(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t, "redis-server")
	s := serving(t, "--rules", file(t, "rules.yaml", startRules), "--store", "redis://weir:secret@"+store.Addr, "--store-required", "--store-timeout", "2s")
	if line := s.until("the store does not answer"); !strings.Contains(line, "WRONGPASS") {
		t.Errorf("%s: want the reason", line)
	}
	ready := func() answered { return ask(t, http.DefaultClient, "GET", s.admin+"/-/ready") }
	if a := ready(); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "the store has not answered since the start") {
		t.Errorf("%v: want it not ready, and why", a)
	}
	store.Do("ACL", "SETUSER", "weir", "on", ">secret", "~*", "+@all")
	redistest.Until(t, "it is ready", func() error {
		if a := ready(); a.status != http.StatusOK {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	store.Do("ACL", "DELUSER", "weir")
	s.until("the store answers again")
	redistest.Until(t, "it decides by its share", func() error {
		if a := s.post("/rate/tokens"); a.header.Get("Weir-Degraded") == "" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	if a := ready(); a.status != http.StatusOK {
		t.Errorf("%v: want it ready", a)
	}
}

// What cannot work is refused at the start: wrong flags, with the exit status of usage errors, and
// rules that the store cannot count.
func TestStoreRefused(t *testing.T) {
	rules := file(t, "rules.yaml", startRules)
	auto := file(t, "auto.yaml", "rules: [{name: auto, key: auto, concurrency: {limit: auto}}]\n")
	for _, try := range []struct {
		code int
		want string
		args []string
	}{
		{2, `--store: the scheme is "http"`, []string{"--store", "http://127.0.0.1:6379"}},
		{2, "--store: not a URL", []string{"--store", "redis://%zz"}},
		{2, "--store: the URL has no host", []string{"--store", "redis://"}},
		{2, "--store: ca: open", []string{"--store", "rediss://127.0.0.1:1?ca=" + filepath.Join(t.TempDir(), "none")}},
		{2, "the port is 99999: want 1 to 65535", []string{"--store", "redis://127.0.0.1:99999"}},
		{2, "--store-away needs --store", []string{"--store-away", "deny"}},
		{2, "--store-required needs --store", []string{"--store-required"}},
		{2, "--instances needs --store", []string{"--instances", "3"}},
		{2, "--store and --state exclude each other", []string{"--store", "redis://127.0.0.1:1", "--state", filepath.Join(t.TempDir(), "state")}},
		{1, "auto finds the limit of one instance", []string{"--store", "redis://127.0.0.1:1", "--rules", auto}},
	} {
		code, _, stderr := weir(t, append([]string{"serve", "--rules", rules}, try.args...)...)
		if code != try.code || !strings.Contains(stderr, try.want) {
			t.Errorf("%q: exit status %d, %s: want %d, %s", try.args, code, stderr, try.code, try.want)
		}
	}
}

// A reload with a rule that the store cannot count keeps the old rules.
func TestStoreReloadRefused(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	rules := file(t, "rules.yaml", startRules)
	s := serving(t, "--rules", rules, "--store", "redis://"+store.Addr, "--watch-interval", "1h", "--store-timeout", "2s")
	before := s.status().Config.Hash
	fatal(t, os.WriteFile(rules, []byte("rules: [{name: auto, key: jobs, concurrency: {limit: auto}}]\n"), 0o600))
	if a := s.reload(); a.status < 400 || !strings.Contains(a.body, "auto finds the limit of one instance") {
		t.Errorf("%v: want a refusal that says why", a)
	}
	if st := s.status(); st.Config.Hash != before || !strings.Contains(st.Config.LastError, "auto") {
		t.Errorf("%+v: want the old rules, and the error", st.Config)
	}
	s.useAll()
}
