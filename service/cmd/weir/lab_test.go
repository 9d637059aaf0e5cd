package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/lab/sla"
)

func TestLabSLA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := weir(t, "lab", "sla", "--sim", "--quick", "--out", dir)
	if code != 0 || !strings.Contains(stdout, "rate.Wait, 75 ms") || !strings.Contains(stdout, "twice as long") || !strings.Contains(stderr, "sla-sim-slow.svg") {
		t.Errorf("%d, %q, %q: want a table, and pictures", code, stdout, stderr)
	}
	for _, name := range []string{"sla-sim.csv", "sla-sim-table.md", "sla-sim.svg", "sla-sim-slow.svg"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), "Auto") {
			t.Errorf("%s: %v, %.100q: want Auto in it", name, err, text)
		}
	}

	code, stdout, stderr = weir(t, "lab", "sla", "--rates", "30,60", "--only", "Wait,Auto", "--point", "300ms", "--phase", "200ms",
		"--again", "0", "--arrivals", "poisson", "--abandoned", "--seed", "7", "--json")
	var got sla.Result
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Simulated || got.Seed != 7 || len(got.Points) != 4 || len(got.Slow) != 2 {
		t.Errorf("%d, %v, %.300q, %q: want four points over HTTP, and a slow-down", code, err, stdout, stderr)
	}
	if code, stdout, _ = weir(t, "lab", "sla", "--rates", "30", "--only", "no limit", "--point", "300ms"); code != 0 || !strings.Contains(stdout, "in virtual time") {
		t.Errorf("%d, %q: want it beside the simulation", code, stdout)
	}
}

// An early interruption prints no empty table.
func TestLabSLAInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, err strings.Builder
	if code := run(ctx, []string{"lab", "sla", "--quick"}, &out, &err); code != 1 || out.Len() > 0 ||
		!strings.Contains(err.String(), "weir lab sla: interrupted before the first point was measured") {
		t.Errorf("%d, %q, %q", code, &out, &err)
	}
}

func TestLabSLAErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"--rates", "0"}, "Rates[0] = 0: must be in (0, 2000]"},
		{2, []string{"--rates", "fast"}, "fast"},
		{2, []string{"--point", "1ms"}, "Point = 1ms: must be in [200ms, 10m0s]"},
		{2, []string{"--phase=-1s"}, "Phase = -1s"},
		{2, []string{"--again=-1"}, "Again = -1"},
		{2, []string{"--only", "best"}, "--only=best: must be part of one of no limit, ticker"},
		{2, []string{"--arrivals", "bursts"}, "--arrivals"},
		{2, []string{"--format", "gif"}, "--format"},
		{1, []string{"--sim", "--rates", "30", "--out", file}, "--out"},
	} {
		code, stdout, stderr := weir(t, append([]string{"lab", "sla"}, tt.args...)...)
		if code != tt.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: %d, %q, %q: want %d and one line with %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}
