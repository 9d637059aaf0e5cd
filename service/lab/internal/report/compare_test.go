package report_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

func TestThresholds(t *testing.T) {
	some := collect(1000, 10*s, func(i int) (time.Duration, int, string) {
		if i%50 == 0 {
			return ms, 503, "queue_full"
		}
		return time.Duration(i) * ms, 200, ""
	})
	none := collect(10, s, func(i int) (time.Duration, int, string) { return ms, 0, trace.Refused })
	left := collect(10, s, func(i int) (time.Duration, int, string) { return ms, 0, trace.Canceled })
	lines := collect(10, s, func(i int) (time.Duration, int, string) { return ms, 0, trace.Sent })
	share := func(x float64) *float64 { return &x }
	latency := func(p float64, most time.Duration) report.Thresholds {
		return report.Thresholds{Latency: []report.Bound{{Percentile: p, Most: most}}}
	}
	for _, tt := range []struct {
		r    report.Report
		t    report.Thresholds
		want string
	}{
		{some, report.Thresholds{}, "[]"}, {left, report.Thresholds{}, "[]"}, {lines, report.Thresholds{}, "[]"},
		{report.NewCollector(s).Report(s), report.Thresholds{}, "[]"},
		{none, report.Thresholds{}, "[no request succeeded: 10 of 10 requests: refused (connection refused)]"},
		{none, report.Thresholds{Failed: share(1)}, "[]"},
		{none, latency(99, s), "[no request succeeded: 10 of 10 requests: refused (connection refused) p99 of successes: there are none: must be <= 1s]"},
		{some, report.Thresholds{Failed: share(0.02)}, "[]"},
		{some, report.Thresholds{Failed: share(0.01)}, "[failed = 2.0 %: must be <= 1.0 %: 20 of 1000 requests: 503 queue_full]"},
		{some, latency(50, 500*ms), "[]"},
		{some, latency(50, 490*ms), "[p50 of successes = 499ms: must be <= 490ms]"},
		{some, latency(99.9, 900*ms), "[p99.9 of successes = 998ms: must be <= 900ms]"},
		{some, latency(100, 999*ms), "[]"},
		{some, latency(100, 990*ms), "[max of successes = 999ms: must be <= 990ms]"},
		{some, report.Thresholds{Goodput: 98}, "[]"},
		{some, report.Thresholds{Goodput: 99}, "[goodput = 98.00 rps: must be >= 99]"},
	} {
		if got := fmt.Sprint(tt.t.Check(tt.r)); got != tt.want {
			t.Errorf("%+v: %s: want %s", tt.t, got, tt.want)
		}
	}
}

// Two runs differ if the difference is larger than the noise within them.
func TestCompare(t *testing.T) {
	spread := func(n int, scale float64, failing int) report.Run {
		r := collect(n, 20*s, func(i int) (time.Duration, int, string) {
			if failing > 0 && i%failing == 0 {
				return ms, 503, ""
			}
			return time.Duration(scale * float64(10*ms+time.Duration(i*7919%1000)*100*time.Microsecond)), 200, ""
		})
		return report.Run{Name: fmt.Sprint(n, scale), Report: r}
	}
	verdicts := func(a, b report.Run) map[string]string {
		got := map[string]string{}
		for _, f := range report.Compare(a, b).Figures {
			got[f.Name] = f.Verdict
		}
		return got
	}
	base := spread(10_000, 1, 0)
	for _, tt := range []struct {
		name                    string
		b                       report.Run
		p50, p99, failed, goods string
	}{
		{"the same", base, "same", "same", "same", "same"},
		{"half a per cent", spread(10_000, 1.005, 0), "same", "same", "same", "same"},
		{"a fifth slower", spread(10_000, 1.2, 0), "worse", "worse", "same", "same"},
		{"a fifth faster", spread(10_000, 0.8, 0), "better", "better", "same", "same"},
		{"one in a hundred fails", spread(10_000, 1, 100), "same", "same", "worse", "worse"},
		{"fewer requests, as slow", spread(500, 1, 0), "same", "unknown", "same", "worse"},
	} {
		got := verdicts(base, tt.b)
		if got["p50"] != tt.p50 || got["failed"] != tt.failed || got["throughput"] != tt.goods || tt.p99 != "unknown" && got["p99"] != tt.p99 {
			t.Errorf("%s: %v: want p50 %s, p99 %s, failed %s, throughput %s", tt.name, got, tt.p50, tt.p99, tt.failed, tt.goods)
		}
		if got["max"] != "unknown" {
			t.Errorf("%s: max is %s: one request tells no noise", tt.name, got["max"])
		}
	}
	c := report.Compare(base, spread(10_000, 1.2, 100))
	if worse := c.Regressions(0.1); len(worse) < 4 || !strings.Contains(fmt.Sprint(worse), "p50: 71.9ms") || strings.Contains(fmt.Sprint(worse), "failed") {
		t.Errorf("%q: want the latencies, which are a fifth worse, and not the failures", worse)
	}
	if worse := c.Regressions(0.25); len(worse) != 0 {
		t.Errorf("%q: want none", worse)
	}
	var b strings.Builder
	if err := c.Table(&b); err != nil || !regexp.MustCompile(`(?m)^p99 +\S+ +\S+ +\+[12]\d\.\d %  worse$`).MatchString(b.String()) {
		t.Errorf("%v\n%s", err, &b)
	}
	data, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(data), `"name":"p99"`) || strings.Contains(string(data), "hdr") {
		t.Errorf("%v, %.300s", err, data)
	}
}
