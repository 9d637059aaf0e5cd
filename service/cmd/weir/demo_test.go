//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/lab/demo"
)

// The headless demo prints its results, and draws a picture of each experiment.
func TestDemoPictures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	code, stdout, stderr := weir(t, "demo", "--headless", "--speed", "50", "--duration", "20s", "--json", "--out", dir)
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
