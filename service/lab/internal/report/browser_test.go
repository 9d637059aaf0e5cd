//go:build system

package report_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// In Chromium, the page has no error, fits a telephone, and its plots have curves.
func TestPageInBrowser(t *testing.T) {
	r := collect(2000, 20*s, func(i int) (time.Duration, int, string) {
		return time.Duration(i%100+1) * ms, []int{200, 200, 503, 0}[i%4], []string{"", "", "", trace.Timeout}[i%4]
	})
	r.Target = "http://127.0.0.1:8000/a/long/path/that/must/be/broken/into/lines/because/a/telephone/is/narrow"
	name := filepath.Join(t.TempDir(), "run.html")
	f, err := os.Create(name)
	testrig.Must(t, err)
	testrig.Must(t, r.Page(f, true, nil))
	testrig.Must(t, f.Close())
	tab := browser.Open(t, "file://"+name, 1280, 900)
	tab.CheckPage("load")
	if n := browser.Evaluate[int](tab, `document.querySelectorAll("svg[viewBox]").length`); n != 3 {
		t.Errorf("%d plots: want three", n)
	}
	if n := browser.Evaluate[int](tab, `[...document.querySelectorAll("svg path")].filter(p => p.getTotalLength() > 100).length`); n < 8 {
		t.Errorf("%d curves: want latencies, rates and percentiles", n)
	}
}
