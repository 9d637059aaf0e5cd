package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// Requests to a proxy that is a leaf take tokens of a key; beyond the limit they get 429.
func TestProxyUpstream(t *testing.T) {
	s := serving(t, "--rules", file(t, "rules.yaml", `rules: [{name: origin, key: origin, rate: 5/h}]`))
	c := proxyUpstream{UpstreamURL: s.public, UpstreamKey: "origin", UpstreamAway: config.AwayDeny, UpstreamLeaves: 1}
	to, err := c.dial(func(error) {})
	fatal(t, err)
	defer to.Close()
	served := 0
	h := takeTokens(to, c.UpstreamKey, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	var last *httptest.ResponseRecorder
	for range 20 {
		last = httptest.NewRecorder()
		h.ServeHTTP(last, httptest.NewRequest("GET", "/", nil))
		time.Sleep(time.Millisecond)
	}
	if served == 0 || served > 5 || last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" || !strings.Contains(last.Body.String(), `"reason":"over_rate"`) {
		t.Errorf("%d of 20 were served, the last got %d %v %s", served, last.Code, last.Header(), last.Body)
	}
}

func TestProxyUpstreamRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"--upstream-key needs --upstream": {"--upstream-key", "a"},
		"--upstream needs --upstream-key": {"--upstream", "http://127.0.0.1:1"},
		"--upstream-token-file: open":     {"--upstream", "http://127.0.0.1:1", "--upstream-key", "a", "--upstream-token-file", "/none"},
	} {
		code, _, stderr := weir(t, append([]string{"proxy", "--origin", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %s: want 2, %s", args, code, stderr, want)
		}
	}
}
