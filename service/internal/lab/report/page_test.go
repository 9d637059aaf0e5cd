package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/internal/lab/report"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// In Chromium, the page has no error, fits a telephone, and its plots have curves.
func TestPageInBrowser(t *testing.T) {
	r := collect(2000, 20*s, func(i int) (time.Duration, int, string) {
		return time.Duration(i%100+1) * ms, []int{200, 200, 503, 0}[i%4], []string{"", "", "", trace.Timeout}[i%4]
	})
	r.Target = "http://127.0.0.1:8000/a/long/path/that/must/be/broken/into/lines/because/a/telephone/is/narrow"
	name := filepath.Join(t.TempDir(), "run.html")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Page(f, true, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	tab := browser.Open(t, "file://"+name, 1280, 900)
	for _, width := range []int64{1280, 390} {
		tab.View(width, 900, width == 390)
		tab.Until("the page fits", func() bool {
			return browser.Evaluate[int](tab, `document.documentElement.scrollWidth - innerWidth`) <= 0
		})
	}
	if n := browser.Evaluate[int](tab, `document.querySelectorAll("svg[viewBox]").length`); n != 2 {
		t.Errorf("%d plots: want two", n)
	}
	if n := browser.Evaluate[int](tab, `[...document.querySelectorAll("svg path")].filter(p => p.getTotalLength() > 100).length`); n < 8 {
		t.Errorf("%d curves: want latencies, rates and percentiles", n)
	}
}

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
