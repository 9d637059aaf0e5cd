//go:build !race

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/cli/clitest"
)

const simScenario = `name: small
duration: 10s
layers:
  - name: service
    workers: 7
    service_time: {mean: 20ms}
clients:
  - name: users
    rate: 500
    timeout: 25ms
variants:
  - name: free
  - name: limited
    set: {layers.service.guard.limit: 7}
`

func TestSimCommand(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "small.yaml")
	testrig.Must(t, os.WriteFile(file, []byte(simScenario), 0o666))
	code, stdout, stderr := weirlab(t, "sim", file, "--out", filepath.Join(dir, "out"))
	if code != 0 || !strings.Contains(stdout, "small (") || !strings.Contains(stdout, "limited") || !strings.Contains(stderr, "small.svg") {
		t.Errorf("%d, %q, %q: want a table and a picture", code, stdout, stderr)
	}
	picture, err := os.ReadFile(filepath.Join(dir, "out", "small.svg"))
	if err != nil || !bytes.Contains(picture, []byte("seed 0")) {
		t.Errorf("%v: want a picture that names its seed", err)
	}

	tape := filepath.Join(dir, "trace.csv")
	code, stdout, stderr = weirlab(t, "sim", file, "--variant", "limited", "--trace", tape, "--seed", "5", "--json")
	var figures []struct {
		Runs []struct {
			Name   string `json:"name"`
			Seed   uint64 `json:"seed"`
			Totals struct {
				Calls int `json:"calls"`
				Open  int `json:"open"`
			} `json:"totals"`
		} `json:"runs"`
	}
	if err := json.Unmarshal([]byte(stdout), &figures); err != nil || code != 0 || len(figures) != 1 || len(figures[0].Runs) != 1 ||
		figures[0].Runs[0].Name != "limited" || figures[0].Runs[0].Seed != 5 {
		t.Fatalf("%d, %v, %.200q, %q: want the result of one run", code, err, stdout, stderr)
	}
	records, err := os.ReadFile(tape)
	if totals := figures[0].Runs[0].Totals; err != nil || bytes.Count(records, []byte("\n")) != totals.Calls-totals.Open+1 {
		t.Errorf("%v, %d lines: want a header and a record for each of %d calls that ended", err, bytes.Count(records, []byte("\n")), totals.Calls-totals.Open)
	}
}

func TestSimErrors(t *testing.T) {
	dir := t.TempDir()
	good, bad, other := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "other", "good.yaml")
	testrig.Must(t, os.Mkdir(filepath.Join(dir, "other"), 0o777))
	for name, text := range map[string]string{good: simScenario, other: simScenario, bad: strings.Replace(simScenario, "rate:", "rat:", 1)} {
		testrig.Must(t, os.WriteFile(name, []byte(text), 0o666))
	}
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{}, `expected "<file> ..."`},
		{2, []string{good, "--schema"}, "give scenario files, --reference or --schema: each by itself"},
		{1, []string{filepath.Join(dir, "none.yaml")}, "none.yaml: no such file"},
		{1, []string{bad}, "bad.yaml:9:5: clients[0].rat: unknown field; known are arrivals"},
		{2, []string{good, "--format", "gif"}, "--format"},
		{2, []string{good, "--variant", "other"}, "weirlab sim: --variant=other: no file has a variant with this text in its name (see weirlab sim --help)"},
		{2, []string{good, "--trace", "x.csv"}, "--trace: there are 2 runs: select one with --variant"},
		{1, []string{good, "--variant", "free", "--trace", dir}, "--trace"},
		{1, []string{good, "--out", good}, "--out"},
		{2, []string{good, other, "--out", dir}, "--out: " + good + " and " + other + " would both be drawn as good.svg"},
	} {
		code, stdout, stderr := weirlab(t, append([]string{"sim"}, tt.args...)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("weirlab sim %v: %d, %q, %q: want %d and %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}

// The fields of a file are printed without a file.
func TestSimReference(t *testing.T) {
	code, stdout, stderr := weirlab(t, "sim", "--reference")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "\nlayers[].guard.limit.backoff (number; default: 0.8)\n") {
		t.Errorf("--reference: %d, %q, %.500q", code, stderr, stdout)
	}
	code, stdout, stderr = weirlab(t, "sim", "--schema")
	if code != 0 || stderr != "" || !json.Valid([]byte(stdout)) || !strings.Contains(stdout, `"backoff": {`) {
		t.Errorf("--schema: %d, %q, %.500q", code, stderr, stdout)
	}
}

func TestSimFleet(t *testing.T) {
	text := "name: few\nduration: 2s\nfleet: {leaves: 3}\nkeys: [{name: api, rate: 100, burst: 10}]\ndemand: [{rate: 200}]\n"
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	testrig.Must(t, os.WriteFile(file, []byte(text), 0o666))
	code, stdout, stderr := weirlab(t, "sim", file, "--json", "--seed", "5")
	var figures []struct {
		Fleets []struct {
			Policy string `json:"policy"`
			Seed   uint64 `json:"seed"`
			Total  struct {
				Use float64 `json:"use"`
			} `json:"total"`
		} `json:"fleets"`
	}
	if err := json.Unmarshal([]byte(stdout), &figures); err != nil || code != 0 || len(figures) != 1 || len(figures[0].Fleets) != 1 {
		t.Fatalf("%d, %v, %.200q, %q", code, err, stdout, stderr)
	}
	if r := figures[0].Fleets[0]; r.Policy != "leaf" || r.Seed != 5 || r.Total.Use < 0.5 {
		t.Errorf("%+v", r)
	}
	if code, _, stderr := weirlab(t, "sim", file, "--trace", "x.csv"); code != 2 || !strings.Contains(stderr, "--trace: "+file+" is about a fleet, which has no calls to trace") {
		t.Errorf("--trace: %d, %q", code, stderr)
	}
}

func TestSimInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	testrig.Must(t, os.WriteFile(file, []byte(simScenario), 0o666))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, err bytes.Buffer
	if code := program.Run(ctx, []string{"sim", file}, &out, &err); code != 1 || out.Len() > 0 || !strings.Contains(err.String(), "interrupted") {
		t.Errorf("%d, %q, %q: want no table of half a run", code, out.String(), err.String())
	}
}

// A run stops when its context ends, also if simulated time passes slowly.
func TestSimInterruptedWithin(t *testing.T) {
	dense := strings.Replace(simScenario, "rate: 500", "rate: 1e9", 1)
	long := strings.Replace(simScenario, "duration: 10s", "duration: 10000h", 1)
	for name, text := range map[string]string{"dense": dense, "long": long} {
		file := filepath.Join(t.TempDir(), "endless.yaml")
		testrig.Must(t, os.WriteFile(file, []byte(text), 0o666))
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer stop()
		var out, err bytes.Buffer
		if code := program.Run(ctx, []string{"sim", file}, &out, &err); code != 1 || !strings.HasPrefix(err.String(), "weirlab sim: interrupted") {
			t.Errorf("%s: %d, %q, %q: want to be interrupted", name, code, out.String(), err.String())
		}
	}
}

// A line tells the end of the run of each fleet, if there are several and no terminal.
func TestSimFleetProgress(t *testing.T) {
	scenario := clitest.File(t, "fleets.yaml", `
name: fleets
duration: 2s
seed: 1
fleet: {leaves: 2}
keys: [{name: api, rate: 100, burst: 100}]
demand: [{name: api, rate: 200}]
variants:
  - {name: two leaves}
  - {name: three leaves, set: {fleet.leaves: 3}}
`)
	code, _, stderr := weirlab(t, "sim", scenario)
	if code != 0 || strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "simulated: two leaves, ") || !strings.Contains(stderr, "simulated: three leaves, ") || !strings.Contains(stderr, ", 2 of 2, after ") {
		t.Errorf("%d, %q", code, stderr)
	}
	if _, _, stderr := weirlab(t, "sim", "--variant", "two leaves", scenario); stderr != "" {
		t.Errorf("%q, want nothing about a single run", stderr)
	}
}
