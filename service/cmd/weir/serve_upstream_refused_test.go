package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// An instance that is its own upstream, such as by the name of a Service that it is behind, says so,
// and does not ask itself.
func TestUpstreamItself(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	address := free.Addr().String()
	fatal(t, free.Close())
	s := serving(t, "--rules", file(t, "rules.yaml", zoneRules), "--upstream", "http://"+address, "--listen", address)
	s.until("the peer is this instance itself")
	if a := s.post("/rate/login"); a.status != 200 || a.header.Get("Weir-Degraded") != "share" {
		t.Errorf("%v, want a decision by share", a)
	}
	if a := ask(t, http.DefaultClient, "GET", s.admin+"/metrics"); !strings.Contains(a.body, `weir_upstream_decisions_total{name="serve",step="exact"} 0`) || !strings.Contains(a.body, `weir_upstream_decisions_total{name="serve",step="share"} 1`) {
		t.Errorf("%s", a.body)
	}
}

// What cannot work is refused at the start.
func TestUpstreamRefused(t *testing.T) {
	t.Parallel()
	rules := file(t, "rules.yaml", zoneRules)
	for _, try := range []struct {
		want string
		args []string
	}{
		{`--upstream: URL = "redis://a": must be http://host:port or https://host:port`, []string{"--upstream", "redis://a"}},
		{"--upstream and --store exclude each other", []string{"--upstream", "http://a", "--store", "redis://127.0.0.1:1"}},
		{"--peers and --upstream exclude each other", []string{"--upstream", "http://a", "--peers", "http://b,http://c"}},
		{"--upstream-assign-from=NaN: must be >= 0", []string{"--upstream", "http://a", "--upstream-assign-from", "NaN"}},
		{"--upstream and --state exclude each other", []string{"--upstream", "http://a", "--state", filepath.Join(t.TempDir(), "state")}},
		{"--upstream-away needs --upstream", []string{"--upstream-away", "deny"}},
		{"--upstream-leaves needs --upstream", []string{"--upstream-leaves", "3"}},
		{"--upstream-token-file: open", []string{"--upstream", "http://a", "--upstream-token-file", filepath.Join(t.TempDir(), "none")}},
		{"--upstream-token-file:", []string{"--upstream", "http://a", "--upstream-token-file", file(t, "empty", "\n")}},
		{"--upstream-cert and --upstream-key: give both, or none", []string{"--upstream", "https://a", "--upstream-cert", "cert.pem"}},
		{"--upstream-ca, --upstream-cert, --upstream-key: open", []string{"--upstream", "https://a", "--upstream-ca", filepath.Join(t.TempDir(), "none")}},
	} {
		code, _, stderr := weir(t, append([]string{"serve", "--rules", rules}, try.args...)...)
		if code != 2 || !strings.Contains(stderr, try.want) {
			t.Errorf("%q: exit status %d, %s: want 2, %s", try.args, code, stderr, try.want)
		}
	}
}
