//go:build system && !race

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/service/internal/browser"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// In Chromium, the pages of advise and replay fit a telephone, by day and by night, and axe-core finds nothing.
func TestPagesInBrowser(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "run.rec"), filepath.Join(dir, "page.html")
	clitest.Fatal(t, os.WriteFile(file, overloaded(), 0o600))
	for _, tt := range []struct {
		name  string
		plots int
		code  int
		args  []string
	}{
		{"advise", 6, 0, []string{"advise", file, "--slo", "p95=200ms"}},
		{"replay", 3, 0, []string{"replay", file, "--seeds", "3"}},
		{"unheld", 3, 1, []string{"replay", file, "--seeds", "1", "--workers", "40"}},
	} {
		if code, _, stderr := weirlab(t, append(tt.args, "--report", out)...); code != tt.code {
			t.Fatalf("%s: %d, %s", tt.name, code, stderr)
		}
		tab := browser.Open(t, "file://"+out, 1280, 900)
		tab.CheckPage(tt.name)
		if n := browser.Evaluate[int](tab, `[...document.querySelectorAll("svg[aria-label]")].filter((s) => [...s.querySelectorAll("path")].some((p) => p.getTotalLength() > 100)).length`); n != tt.plots {
			t.Errorf("%s: %d plots: want %d", tt.name, n, tt.plots)
		}
	}
}
