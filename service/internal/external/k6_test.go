//go:build system

package external

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
)

// k6 sends 60 requests a second for three seconds in an open loop, and its script checks
// each answer. The rule admits as many requests as it has tokens.
func TestK6ConstantArrivalRate(t *testing.T) {
	const perSecond, burst = 20, 10
	s := newSite(t, httplimit.Config{Rules: []httplimit.Rule{byKey(t, gcra.Per(perSecond, time.Second, burst))}}, hello)
	server := httptest.NewServer(s)
	defer server.Close()
	t.Setenv("K6_NO_USAGE_REPORT", "true")
	t.Setenv("K6_AUTO_EXTENSION_RESOLUTION", "false")
	t.Setenv("HOME", t.TempDir()) // k6 writes its settings there
	start := time.Now()
	run(t, "k6", "run", "--quiet", "--no-color", "--address", "", "--env", "TARGET="+server.URL, "testdata/constant-arrival-rate.js")
	most := burst + perSecond*time.Since(start).Seconds()
	rule := s.Stats().Rules[0]
	if rule.Allowed < burst || float64(rule.Allowed) > most || rule.Denied == 0 || rule.Allowed+rule.Denied > 181 {
		t.Errorf("%+v: want at most %.0f allowed, and the rest denied", rule, most)
	}
}
