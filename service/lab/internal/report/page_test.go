package report_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// The page has all parts, no other file, and what it shows is escaped.
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
	for _, bad := range []string{"<script", "src=", "href=", "<?xml", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("%q in a page that needs no other file", bad)
		}
	}
	// The plots have the colours of the page, which defines each for light and for dark.
	_, plots, _ := strings.Cut(page, "<svg")
	if i := strings.IndexByte(plots, '#'); i >= 0 && plots[i:i+2] != "#x" {
		t.Errorf("a plot has a colour of its own: %s", plots[i:i+10])
	}
	for _, use := range regexp.MustCompile(`var\((--[a-z]+)\)`).FindAllStringSubmatch(page, -1) {
		if n := strings.Count(page, use[1]+":"); n != 2 {
			t.Errorf("%s is defined %d times: want a light and a dark colour", use[1], n)
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
