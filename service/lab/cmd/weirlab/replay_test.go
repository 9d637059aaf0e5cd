//go:build !race

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/cli/clitest"
)

func TestReplay(t *testing.T) {
	dir := t.TempDir()
	in := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		clitest.Fatal(t, os.WriteFile(name, content, 0o600))
		return name
	}
	whole := overloaded()
	file := in("whole.rec", whole)
	code, stdout, stderr := weirlab(t, "replay", file, "--json", "--limit", "auto", "--limit", "12", "--queue", "50", "--max-wait", "200ms", "--retry-budget", "10%", "--seeds", "3", "--out", dir)
	var r struct {
		Requests int
		Holds    bool
		Station  struct{ Workers int }
		Outcomes []struct {
			Policy string
			Median struct{ Served, Rejected, P95 float64 }
		}
	}
	clitest.Fatal(t, json.Unmarshal([]byte(stdout), &r))
	if code != 0 || !strings.Contains(stderr, "wrote "+filepath.Join(dir, "whole.svg")) || !r.Holds || r.Requests != 8000 || r.Station.Workers < 9 || r.Station.Workers > 11 || len(r.Outcomes) != 2 ||
		r.Outcomes[1].Policy != "12, queue 50, for 200ms, retries 10 %" || r.Outcomes[1].Median.P95 > 0.35 {
		t.Errorf("%d, %q, %+v", code, stderr, r)
	}
	if !strings.Contains(string(must(t, filepath.Join(dir, "whole.svg"))), "what happened") {
		t.Error("the plot has no key")
	}
	page := filepath.Join(dir, "page.html")
	code, stdout, _ = weirlab(t, "replay", file, "--limit", "auto", "--seeds", "3", "--report", page)
	row := regexp.MustCompile(`limit auto +([0-9]+) +([0-9]+) `).FindStringSubmatch(stdout)
	if text := string(must(t, page)); code != 0 || row == nil || !regexp.MustCompile(`<th scope="row">limit auto</th><td>`+row[1]+`(<small>[0-9–]+</small>)?</td><td>`+row[2]+`[<]`).MatchString(text) || !strings.Contains(text, "P95 of the served over time") {
		t.Errorf("%d, %s\n%s", code, stdout, text)
	}
	code, stdout, stderr = weirlab(t, "replay", in("cut", whole[:len(whole)-5]), "--workers", "40", "--seeds", "1", "--report", page)
	if text := string(must(t, page)); !strings.Contains(text, "Why the model does not hold") || !strings.Contains(text, "40 workers do not explain") || !strings.Contains(text, "the 7680 requests before") {
		t.Errorf("%s", text)
	}
	if code != 1 || !strings.Contains(stderr, "the 7680 requests before that are read") || !strings.Contains(stderr, "the model does not hold") || !strings.Contains(stdout, "40 workers do not explain") {
		t.Errorf("%d, %q, %s", code, stderr, stdout)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{}, "<file>"},
		{[]string{filepath.Join(dir, "none")}, "no such file"},
		{[]string{in("text", []byte("intended_s,start_s\n"))}, "the file is no recording"},
		{[]string{in("short", whole[:100])}, "the file is cut off within a block"},
		{[]string{in("empty", whole[:24])}, "the recording has no requests"},
		{[]string{file, "--limit", "many"}, "none, auto, or a number"},
		{[]string{file, "--limit", "0"}, "none, auto, or a number"},
		{[]string{file, "--limit", "20", "--limit", "20"}, "--limit=20 is given twice"},
		{[]string{file, "--limit", "none", "--queue", "5"}, "--limit=none has no queue"},
		{[]string{file, "--queue", "5"}, "need a --limit"},
		{[]string{file, "--retry-budget", "10%"}, "need a --limit"},
		{[]string{file, "--retry-budget", "200%", "--limit", "auto"}, "1%"},
		{[]string{file, "--workers", "-1"}, "--workers"},
		{[]string{file, "--seeds", "0"}, "--seeds"},
		{[]string{file, "--seeds", "1000000000"}, "--seeds=1000000000: must be in [1, 1000]"},
		{[]string{file, "--recorded-queue", "5"}, "need --recorded-limit"},
		{[]string{file, "--recorded-limit", "none", "--recorded-max-wait", "1s"}, "--recorded-limit=none has no queue"},
	} {
		if code, _, stderr := weirlab(t, append([]string{"replay"}, tt.args...)...); code != 2 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: %d, %q: want %q", tt.args, code, stderr, tt.want)
		}
	}
}
