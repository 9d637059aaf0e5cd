package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// The page has all parts, and what it shows is escaped.
func TestPage(t *testing.T) {
	r := collect(2000, 20*s, func(i int) (time.Duration, int, string) {
		return time.Duration(i%100+1) * ms, []int{200, 200, 503}[i%3], []string{"", "", "<b>"}[i%3]
	})
	r.Target, r.Load = "http://h/<script>", "open loop"
	r.Traffic = report.Traffic{Connections: 1, Sent: 2048, Received: 3 << 20}
	var b strings.Builder
	if err := r.Page(&b, true, []string{"p99 > 1"}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"http://h/&lt;script&gt;", "503 &lt;b&gt;", "✗ p99 &gt; 1", "Latency by percentile", "99.9 %", "2.0 KiB sent", "3.0 MiB", "Latency of successes", "<i style=\"width:100.00%\">"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q in the page", want)
		}
	}
	none := collect(10, s, func(int) (time.Duration, int, string) { return ms, 0, trace.Refused })
	b.Reset()
	if err := none.Page(&b, false, nil); err != nil || !strings.Contains(b.String(), "connection refused") || strings.Contains(b.String(), "✓") {
		t.Errorf("%v: want a page of failures", err)
	}
	b.Reset()
	c := report.Compare(report.Run{Name: "a.json", Report: r}, report.Run{Name: "b.json", Report: none})
	if err := c.Page(&b, true, nil); err != nil || !strings.Contains(b.String(), "a.json") || !strings.Contains(b.String(), "✓ All thresholds are kept.") {
		t.Errorf("%v: want a page of the comparison", err)
	}
}
