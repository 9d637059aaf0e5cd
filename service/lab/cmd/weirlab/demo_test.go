//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/lab/internal/demo"
)

// The headless demo prints its results, and draws a picture of each experiment.
func TestDemoPictures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	code, stdout, stderr := weirlab(t, "demo", "--headless", "--speed", "50", "--duration", "20s", "--json", "--out", dir)
	if code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	var report demo.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Experiments) != 5 || report.Speed != 50 {
		t.Fatalf("%v: %s", err, stdout)
	}
	for _, e := range report.Experiments {
		name := filepath.Join(dir, fmt.Sprintf("capacity-%s.svg", e.Name))
		picture, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(picture), e.Title) || !strings.Contains(string(picture), "Origin: latency") {
			t.Errorf("%s: %v: want a picture with the title %q", name, err, e.Title)
		}
		if !strings.Contains(stderr, "wrote "+name) {
			t.Errorf("%q does not tell of %s", stderr, name)
		}
	}
}

// A browser is opened where the user has a desktop.
func TestDemoOpener(t *testing.T) {
	for _, tt := range []struct{ system, variables, want string }{
		{"linux", "", ""},
		{"linux", "DISPLAY", "xdg-open"},
		{"linux", "WAYLAND_DISPLAY", "xdg-open"},
		{"linux", "DISPLAY SSH_CONNECTION", ""},
		{"freebsd", "DISPLAY", "xdg-open"},
		{"darwin", "", "open"},
		{"darwin", "SSH_TTY", ""},
		{"windows", "", "rundll32 url.dll,FileProtocolHandler"},
	} {
		set := strings.Fields(tt.variables)
		getenv := func(name string) string {
			if slices.Contains(set, name) {
				return "1"
			}
			return ""
		}
		if got := strings.Join(opener(tt.system, getenv), " "); got != tt.want {
			t.Errorf("%s with %q: %q: want %q", tt.system, tt.variables, got, tt.want)
		}
	}
}
