package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/proxy/proxypage"
)

// The operators' listener of weir proxy has a page, with rules that are loaded again, and
// only for requests that no web site has sent.
func TestProxyPage(t *testing.T) {
	origin := echo(t)
	origin.Start()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) { t.Helper(); fatal(t, os.WriteFile(rules, []byte(text), 0o600)) }
	write("rules: [{name: clients, by: address, rate: 2/m}]\n")
	s := proxying(t, "--origin", origin.URL, "--rules", rules, "--watch-interval", "1h")
	do := func(method, path string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, s.admin+path, nil)
		fatal(t, err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		fatal(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		fatal(t, err)
		if path == "/" && !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "default-src 'self';") {
			t.Errorf("policy %q", resp.Header.Get("Content-Security-Policy"))
		}
		return resp.StatusCode, string(body)
	}
	want := func(method, path string, status int, text string, header ...string) {
		t.Helper()
		if got, body := do(method, path, header...); got != status || !strings.Contains(body, text) {
			t.Errorf("%s %s: %d %s: want %d and %s", method, path, got, body, status, text)
		}
	}
	want("GET", "/", 200, "<title>weir proxy</title>")
	for range 3 {
		s.get()
	}
	want("GET", "/-/explain?url=/&address=127.0.0.1", 200, `Denied with 429 by the rule \"clients\"`)
	want("GET", "/-/explain?url=/&address=127.0.0.9", 200, `Forwarded to the origin.`)
	write("rules: [{name: clients, by: address, rate: much}]\n")
	want("POST", "/-/reload", 422, "rules[0].rate")
	write("rules: [{name: clients, by: address, rate: 2/m, mode: shadow}]\n")
	want("POST", "/-/reload", 403, "", "Origin", "http://evil.example")
	want("POST", "/-/set", 403, "", "Sec-Fetch-Site", "cross-site")
	want("POST", "/-/reload", 200, "1 changed")
	// The page has the counts within a second or two.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fatal(t, httpserve.Until(ctx, func() bool {
		var st proxypage.State
		_, body := do("GET", "/-/live?since=1")
		fatal(t, json.Unmarshal([]byte(body), &st))
		return len(st.Rules) == 1 && st.Rules[0].Mode == "shadow" && st.Rules[0].Denied == 1 && len(st.History) > 0 && len(st.Origins) == 1
	}))
}

// Profiles are served to operators if that is asked for.
func TestProxyProfiles(t *testing.T) {
	origin := echo(t)
	origin.Start()
	for status, flags := range map[int][]string{404: nil, 200: {"--pprof"}} {
		s := proxying(t, append(flags, "--origin", origin.URL)...)
		resp, err := http.Get(s.admin + "/debug/pprof/cmdline")
		fatal(t, err)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%q: %d: want %d", flags, resp.StatusCode, status)
		}
	}
}
