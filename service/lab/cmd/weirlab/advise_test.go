//go:build !race

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// overloaded returns the recording of ten workers that take 50 ms, of which the load goes up to 1.2 times the
// capacity.
func overloaded() []byte {
	var b bytes.Buffer
	w := recording.NewWriter(&b, time.Unix(1_700_000_000, 0))
	free := [10]time.Duration{}
	at := time.Duration(0)
	for i := range 8000 {
		at += time.Duration(float64(time.Second) / (20 + 220*float64(i)/8000))
		k := i % len(free)
		end := max(at, free[k]) + time.Duration(50e6*(1+0.3*math.Sin(float64(7*i))))
		free[k] = end
		_ = w.Write(recording.Record{Intended: at, Start: at, End: end, Outcome: recording.Ended(weir.Success)})
	}
	_ = w.Flush()
	return b.Bytes()
}

// goesDown returns the recording of a service that serves no request of a minute any more after a while.
func goesDown(after time.Duration) []byte {
	var b bytes.Buffer
	w := recording.NewWriter(&b, time.Unix(1_700_000_000, 0))
	for i := range 6000 {
		at := time.Duration(i) * 10 * time.Millisecond
		r := recording.Record{Intended: at, Start: at, End: at + time.Duration(50e6*(1+0.3*math.Sin(float64(7*i)))), Outcome: recording.Ended(weir.Success)}
		if at >= after {
			r.End, r.Outcome = at+time.Second, recording.Ended(outcome.TimedOut)
		}
		_ = w.Write(r)
	}
	_ = w.Flush()
	return b.Bytes()
}

func TestAdvise(t *testing.T) {
	dir := t.TempDir()
	in := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		clitest.Fatal(t, os.WriteFile(name, content, 0o600))
		return name
	}
	whole := overloaded()
	file, cut := in("whole", whole), in("cut", whole[:len(whole)-5])
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	code, stdout, stderr := weirlab(t, "advise", file, "--json", "--slo", "p99=300ms", "--load", "2x")
	var a struct {
		Requests int
		Knee     struct{ Value, Low, High float64 }
		Incident struct {
			Cause   string
			Began   *float64
			Setting *struct{ Limit string }
		}
	}
	clitest.Fatal(t, json.Unmarshal([]byte(stdout), &a))
	if k := a.Knee; code != 0 || stderr != "" || a.Requests != 8000 || k.Value < 9 || k.Value > 11 || k.Low > 10 || k.High < 10 {
		t.Errorf("%d, %q, %+v", code, stderr, a)
	}
	if i := a.Incident; i.Cause != "demand" || i.Began == nil || *i.Began < 20 || i.Setting != nil { // all requests are served
		t.Errorf("%+v", i)
	}
	if code, stdout, stderr = weirlab(t, "advise", cut); code != 0 || !strings.Contains(stderr, cut+": the file is cut off within a block: the 7680 requests before that are read") || !strings.Contains(stdout, "7680 requests in") || !strings.Contains(stdout, "\nincident      ") {
		t.Errorf("%d, %q, %s", code, stderr, stdout)
	}
	if _, stdout, _ = weirlab(t, "advise", cut, "--json"); !strings.Contains(stdout, `"cut": "`+cut+`: the file is cut off within a block`) {
		t.Errorf("%s", stdout)
	}
	if code, _, stderr = weirlab(t, "advise", in("damaged", damaged)); code != 0 || !strings.Contains(stderr, "the checksum of a block is wrong: the ") {
		t.Errorf("%d, %q", code, stderr)
	}
	// A service may not come back: then little can be fitted, and what happened can be told.
	out := filepath.Join(dir, "down.html")
	code, stdout, stderr = weirlab(t, "advise", in("down", goesDown(10*time.Second)), "--report", out)
	if page := string(must(t, out)); code != 0 || !strings.Contains(stdout, "capacity      not known") || !strings.Contains(stdout, "began       10s into") || !strings.Contains(page, "An incident is seen") {
		t.Errorf("%d, %q, %s", code, stderr, stdout)
	}
	code, stdout, stderr = weirlab(t, "advise", in("never up", goesDown(0)))
	if code != 1 || !strings.Contains(stderr, "too little for any advice") || !strings.Contains(stdout, "Of 6000 requests, the work of 0 is known") {
		t.Errorf("%d, %q, %s", code, stderr, stdout)
	}
	for _, tt := range []struct {
		code int
		args []string
		want string
	}{
		{2, []string{}, "<file>"},
		{2, []string{filepath.Join(dir, "none")}, "no such file"},
		{2, []string{in("text", []byte("intended_s,start_s\n"))}, "the file is no recording"},
		{2, []string{in("short", whole[:100])}, "the file is cut off within a block"},
		{2, []string{in("empty", whole[:24])}, "the recording has no requests"},
		{2, []string{file, "--slo", "200ms"}, "p95=200ms"},
		{2, []string{file, "--slo", "p100=200ms"}, "p95=200ms"},
		{2, []string{file, "--slo", "p95=-1s"}, "p95=200ms"},
		{2, []string{file, "--load", "0"}, "1.5x"},
		{2, []string{file, "--load", "infx"}, "1.5x"},
	} {
		if code, _, stderr := weirlab(t, append([]string{"advise"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: %d, %q: want %d, %q", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}

// The page has the figures of --json, and says what the recording cannot tell.
func TestAdvisePage(t *testing.T) {
	dir := t.TempDir()
	whole := overloaded()
	for _, tt := range []struct {
		name    string
		content []byte
		want    []string
	}{
		{"<whole>.rec", whole, []string{"Recommended: a limit of", "Throughput over requests in flight", "Capacity and throughput over time", "workers with a queue (M/M/c-like)"}},
		{"cut.rec", whole[:len(whole)-5], []string{"the 7680 requests before that are read"}},
		{"low.rec", whole[:len(whole)/4], []string{"The capacity of the service is not known: it is at least", "What the recording cannot tell", "The load never came near the knee"}},
	} {
		file, out := filepath.Join(dir, tt.name), filepath.Join(dir, tt.name+".html")
		clitest.Fatal(t, os.WriteFile(file, tt.content, 0o600))
		code, stdout, stderr := weirlab(t, "advise", file, "--json", "--report", out)
		if code != 0 || !strings.Contains(stderr, "wrote "+out) {
			t.Fatalf("%s: %d, %s", tt.name, code, stderr)
		}
		page := string(must(t, out))
		for _, want := range append(tt.want, "weirlab advise: "+html.EscapeString(tt.name)) {
			if !strings.Contains(page, want) {
				t.Errorf("%s: want %q in the page", tt.name, want)
			}
		}
		var a struct {
			Requests       int
			Knee, Capacity struct{ Value, Low, High *float64 }
			Recommended    *struct{ Limit, Queue, Instances int }
		}
		clitest.Fatal(t, json.Unmarshal([]byte(stdout), &a))
		figures := []string{fmt.Sprintf("%d requests in", a.Requests)}
		if a.Knee.Value != nil {
			figures = append(figures, fmt.Sprintf("<dd>%.1f in flight</dd><dd class=\"note\">%.1f to %.1f</dd>", *a.Knee.Value, *a.Knee.Low, *a.Knee.High), fmt.Sprintf("%.0f requests/s at most  (%.0f to %.0f)", *a.Capacity.Value, *a.Capacity.Low, *a.Capacity.High),
				fmt.Sprintf("<td>%d requests in flight</td>", a.Recommended.Limit), fmt.Sprintf("<td>%d requests, for", a.Recommended.Queue), fmt.Sprintf("<td>%d, for", a.Recommended.Instances))
		} else {
			figures = append(figures, fmt.Sprintf("at least %.2g in flight", *a.Knee.Low))
		}
		for _, want := range figures {
			if !strings.Contains(page, want) {
				t.Errorf("%s: want %q in the page", tt.name, want)
			}
		}
	}
	for _, args := range [][]string{{"advise"}, {"replay"}, {"load", "compare", filepath.Join(dir, "a.json")}} {
		if code, _, stderr := weirlab(t, append(args, filepath.Join(dir, "cut.rec"), "--report", "page.txt")...); code != 2 || !strings.Contains(stderr, `the name must end in .html`) {
			t.Errorf("%q: %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := weirlab(t, "advise", filepath.Join(dir, "low.rec"), "--report", filepath.Join(dir, "none", "page.html")); code != 1 || !strings.Contains(stderr, "weirlab advise: --report: open ") {
		t.Errorf("%d, %s", code, stderr)
	}
}
