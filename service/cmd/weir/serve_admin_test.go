package main

import (
	"net/http"
	"strings"
	"testing"
)

const operatorTokens = `tokens:
  - {name: shop, token: secret-of-the-shop}
  - {name: operator, token: secret-of-the-operator, allow: [admin]}
  - {name: prometheus, token: secret-of-the-scraper, allow: [metrics]}
`

// The listener of operators can have TLS and need a token; probes need none.
func TestAdminAuth(t *testing.T) {
	ca, tokens := newAuthority(t, "ours"), file(t, "tokens.yaml", operatorTokens)
	s := serving(t, append(newTLSFiles(t, ca).flags(), "--tokens", tokens, "--admin-tokens", tokens, "--admin-tls")...)
	if !strings.HasPrefix(s.admin, "https://") {
		t.Fatalf("%s: want https", s.admin)
	}
	client := ca.client(t, nil, false)
	for _, tt := range []struct {
		path, authorization string
		status              int
	}{
		{"/-/ready", "", 200}, {"/-/health", "", 200},
		{"/-/status", "", 401}, {"/metrics", "Bearer nobody", 401}, {"/metrics", "Bearer secret-of-the-shop", 403},
		{"/metrics", "Bearer secret-of-the-operator", 200}, {"/", "Basic YW55OnNlY3JldC1vZi10aGUtb3BlcmF0b3I=", 200},
		{"/debug/pprof/", "Bearer secret-of-the-operator", 404},
		{"/metrics", "Bearer secret-of-the-scraper", 200}, {"/", "Bearer secret-of-the-scraper", 403}, {"/-/top", "Bearer secret-of-the-scraper", 403},
		{"//metrics", "Bearer secret-of-the-scraper", 403}, {"/metrics/", "Bearer secret-of-the-scraper", 403},
	} {
		if a := ask(t, client, "GET", s.admin+tt.path, "Authorization", tt.authorization); a.status != tt.status {
			t.Errorf("%s as %q: %v: want %d", tt.path, tt.authorization, a, tt.status)
		}
	}
	if a := ask(t, client, "POST", s.public+"/rate/a", "Authorization", "Bearer secret-of-the-operator"); a.status != 403 {
		t.Errorf("an operator takes a token: %v: want 403", a)
	}
	for _, path := range []string{"/-/reset?key=a", "/-/reload", "/metrics"} {
		if a := ask(t, client, "POST", s.admin+path, "Authorization", "Bearer secret-of-the-scraper"); a.status != 403 || !strings.Contains(a.body, "prometheus may not admin") {
			t.Errorf("a scraper at %s: %v: want 403", path, a)
		}
	}
	if a := ask(t, client, "POST", s.admin+"/-/reset?key=a", "Authorization", "Bearer secret-of-the-operator"); a.status != 200 {
		t.Fatalf("an operator: %v: want 200", a)
	}
	s.until(`msg="request of an operator" request="POST /-/reset?key=a" status=200 token=operator from=127.0.0.1:`)
	s.end()
}

// Callers need none of the tokens of operators.
func TestTopWithToken(t *testing.T) {
	t.Parallel()
	s := serving(t, "--admin-tokens", file(t, "tokens.yaml", operatorTokens))
	if code, stdout, stderr := weir(t, "top", "--once", "--admin", s.admin, "--token", "secret-of-the-operator"); code != 0 || stdout == "" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := weir(t, "top", "--once", "--admin", s.admin); code != 1 || !strings.Contains(stderr, "unknown token") {
		t.Errorf("without the token: exit %d, %q: want it said", code, stderr)
	}
	if a := ask(t, http.DefaultClient, "POST", s.public+"/rate/a"); a.status != 200 {
		t.Errorf("a caller without a token: %v: want 200", a)
	}
	s.end()
}

// A web site that gave its name the address of the listener reads nothing, unless the name
// is allowed. Profiles are served if that is asked for.
func TestAdminHost(t *testing.T) {
	s := serving(t, "--admin-host", "ops.example.com", "--pprof")
	for host, want := range map[string]int{"evil.example": 403, "ops.example.com": 200} {
		r, err := http.NewRequest("GET", s.admin+"/debug/pprof/cmdline", nil)
		fatal(t, err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		fatal(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d: want %d", host, resp.StatusCode, want)
		}
	}
	s.end()
}
