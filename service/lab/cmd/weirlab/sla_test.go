//go:build !race

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/lab/internal/sla"
)

func TestSLA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	code, stdout, stderr := weirlab(t, "sla", "--sim", "--quick", "--out", dir)
	if code != 0 || !strings.Contains(stdout, "rate.Wait, 75 ms") || !strings.Contains(stdout, "twice as long") || !strings.Contains(stderr, "sla-sim-slow.svg") {
		t.Errorf("%d, %q, %q: want a table, and pictures", code, stdout, stderr)
	}
	for _, name := range []string{"sla-sim.csv", "sla-sim-table.md", "sla-sim.svg", "sla-sim-slow.svg"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(text), "Auto") {
			t.Errorf("%s: %v, %.100q: want Auto in it", name, err, text)
		}
	}

	code, stdout, stderr = weirlab(t, "sla", "--rates", "30,60", "--only", "Wait,Auto", "--point", "300ms", "--phase", "200ms",
		"--again", "0", "--arrivals", "poisson", "--abandoned", "--seed", "7", "--json")
	var got sla.Result
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.Simulated || got.Seed != 7 || len(got.Points) != 4 || len(got.Slow) != 2 {
		t.Errorf("%d, %v, %.300q, %q: want four points over HTTP, and a slow-down", code, err, stdout, stderr)
	}
	if code, stdout, _ = weirlab(t, "sla", "--rates", "30", "--only", "no limit", "--point", "300ms"); code != 0 || !strings.Contains(stdout, "in virtual time") {
		t.Errorf("%d, %q: want it beside the simulation", code, stdout)
	}
}

// The flags set the upstream, the limits and the agreement.
func TestSLASetting(t *testing.T) {
	code, stdout, stderr := weirlab(t, "sla", "--sim", "--only", "Wait,tollbooth", "--rates", "10..30@10,200", "--mean", "100ms", "--deviation", "10ms",
		"--distribution", "half-normal", "--concurrency", "2", "--call-timeout", "1s", "--rate", "20", "--burst", "2", "--wait", "100ms",
		"--agreed-rate", "15", "--agreed-p95", "90ms", "--agreed-success", "99%", "--requests", "100", "--skip", "10%", "--point", "1s")
	for _, want := range []string{
		"rate.Wait, 100 ms", "The agreement: 15 requests a second, P95 90ms, 99 % success.", "rate.Wait, 100 ms: met at 0 of 4 rates; the lowest that breaks it is 10 (P95 116 ms)",
	} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%d, %s%s: want %q", code, stdout, stderr, want)
		}
	}
	if strings.Contains(stderr, "--quick") {
		t.Errorf("%q: want no caveat", stderr)
	}
	if _, _, stderr = weirlab(t, "sla", "--sim", "--quick", "--rates", "30"); !strings.Contains(stderr, "--quick measures 1.5 s a point") {
		t.Errorf("%q: want a caveat", stderr)
	}
	code, stdout, stderr = weirlab(t, "sla", "--article", "--sim", "--rates", "425", "--json")
	var got sla.Result
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || len(got.Points) != 6 || got.Points[0].Requests != 2125 || got.Agreed.Success != 0.9999 || len(got.Slow) > 0 {
		t.Errorf("%d, %v, %s, %+v: want 2,125 requests that count", code, err, stderr, got)
	}
}

// An early interruption prints no empty table.
func TestSLAInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, err strings.Builder
	if code := program.Run(ctx, []string{"sla", "--quick"}, &out, &err); code != 1 || out.Len() > 0 ||
		!strings.Contains(err.String(), "weirlab sla: interrupted before the first point was measured") {
		t.Errorf("%d, %q, %q", code, &out, &err)
	}
}

func TestSLAErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{"--rates", "0"}, "Rates[0] = 0: must be in [0.01, 2000]"},
		{2, []string{"--rates", "1e17..1e17@1"}, "Rates[0] = 1e+17: must be in [0.01, 2000]"}, // the next number is further than a step
		{2, []string{"--rates", "inf"}, "--rates=inf: want a rate"},
		{2, []string{"--rates", "4..nan@1"}, "--rates=4..nan@1: want"},
		{2, []string{"--rate", "1e-11"}, "Rate = 1e-11: must be in [0.01, 2000]"},
		{2, []string{"--agreed-rate", "1e-11"}, "Agreed.Rate = 1e-11: must be in [0.01, 2000]"},
		{2, []string{"--rates", "fast"}, "fast"},
		{2, []string{"--point", "1ms"}, "Point = 1ms: must be in [200ms, 2h0m0s]"},
		{2, []string{"--phase=-1s"}, "Phase = -1s"},
		{2, []string{"--again=-1"}, "Again = -1"},
		{2, []string{"--rates", "4..2@1"}, "--rates=4..2@1: want a rate such as 425, or a range such as 400..600@25"},
		{2, []string{"--rates", "4..9"}, "--rates=4..9: want"},
		{2, []string{"--rates", "4..9@1@2"}, "--rates=4..9@1@2: want"},
		{2, []string{"--rates", "1..900@1"}, "of at most 100 rates"},
		{2, []string{"--quick", "--article"}, "exclude each other"},
		{2, []string{"--concurrency", "0"}, "Concurrency = 0: must be in [1, 10000]"},
		{2, []string{"--mean", "0s"}, "--mean=0s: must be in (0s, 1h0m0s]"},
		{2, []string{"--deviation=-1s"}, "--deviation=-1s: must be in"},
		{2, []string{"--distribution", "constant", "--deviation", "1ms"}, "--deviation=1ms: the distribution constant has none to set"},
		{2, []string{"--deviation", "20ms"}, "must be in (0, 0.3] if the distribution is normal"},
		{2, []string{"--agreed-success", "101%"}, `want a share such as 1% or 0.01`},
		{2, []string{"--skip", "95%"}, "Skip = 0.95: must be in [0, 0.9]"},
		{2, []string{"--requests", "3000000"}, "Requests = 3000000: must be in"},
		{2, []string{"--only", "best"}, "--only=best: must be part of one of no limit, ticker"},
		{2, []string{"--arrivals", "bursts"}, "--arrivals"},
		{2, []string{"--format", "gif"}, "--format"},
		{1, []string{"--sim", "--rates", "30", "--out", file}, "--out"},
	} {
		code, stdout, stderr := weirlab(t, append([]string{"sla"}, tt.args...)...)
		if code != tt.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: %d, %q, %q: want %d and one line with %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// A range has its end, also if the sum of its steps is rounded.
func TestParseRates(t *testing.T) {
	for text, want := range map[string]string{
		"425": "[425]", "400..600@100": "[400 500 600]", "1..2.9@1": "[1 2]", "0.1..0.3@0.1": "[0.1 0.2 0.30000000000000004]", "7..7@5": "[7]",
	} {
		if rates, err := parseRates([]string{text}); err != nil || fmt.Sprint(rates) != want {
			t.Errorf("%s: %v, %v: want %s", text, rates, err, want)
		}
	}
}
