package sla

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                                   func(*Config) {},
		"sla: Rates: there must be 1 to 100": func(c *Config) { c.Rates = nil },
		"sla: Rates[1] = 0: must be in [0.01, 2000]":      func(c *Config) { c.Rates[1] = 0 },
		"sla: Rates[0] = NaN: must be in [0.01, 2000]":    func(c *Config) { c.Rates[0] = math.NaN() },
		"sla: Rates[2] = 2001: must be in [0.01, 2000]":   func(c *Config) { c.Rates[2] = 2001 },
		"sla: Point = 100ms: must be in [200ms, 2h0m0s]":  func(c *Config) { c.Point = 100 * ms },
		"sla: Point = 3h0m0s: must be in [200ms, 2h0m0s]": func(c *Config) { c.Point = 3 * time.Hour },
		"sla: Again = -1: must be in [0, 100]":            func(c *Config) { c.Again = -1 },
		"sla: Phase = -1ns: must be in [0, 2h0m0s]":       func(c *Config) { c.Phase = -1 },
		"sla: Requests = -1: must be in [0, 2000000]":     func(c *Config) { c.Requests = -1 },
		"sla: Skip = 0.95: must be in [0, 0.9]":           func(c *Config) { c.Skip = 0.95 },
		"sla: Rates[0] = 0.1: a point would last 34h43m20s and have 12500 requests: must be at most 2h0m0s and 2000000": func(c *Config) {
			c.Rates, c.Requests = []float64{0.1}, 10_000
		},
		"sla: Rates[0] = 2000: a point would last 1h0m0s and have 7200000 requests: must be at most 2h0m0s and 2000000": func(c *Config) {
			c.Rates, c.Point = []float64{2000}, time.Hour
		},
		"sla: Concurrency = 0: must be in [1, 10000]":                            func(c *Config) { c.Setting.Concurrency = 0 },
		"sla: Work: cv = 0.5: must be in (0, 0.3] if the distribution is normal": func(c *Config) { c.Setting.Work.CV = 0.5 },
		"sla: Work: mean = 1ns: must be >= 1µs":                                  func(c *Config) { c.Setting.Work.Mean = 1 },
		"sla: Timeout = 0s: must be in (0s, 2h0m0s]":                             func(c *Config) { c.Setting.Timeout = 0 },
		"sla: Rate = NaN: must be in [0.01, 2000]":                               func(c *Config) { c.Setting.Rate = math.NaN() },
		"sla: Burst = 0: must be in [1, 10000]":                                  func(c *Config) { c.Setting.Burst = 0 },
		"sla: Wait = 0s: must be in [1ms, 2h0m0s]":                               func(c *Config) { c.Setting.Wait = 0 },
		"sla: Agreed.Rate = 0: must be in [0.01, 2000]":                          func(c *Config) { c.Agreed.Rate = 0 },
		"sla: Agreed.P95 = 0s: must be in (0s, 2h0m0s]":                          func(c *Config) { c.Agreed.P95 = 0 },
		"sla: Agreed.Success = 2: must be in (0, 1]":                             func(c *Config) { c.Agreed.Success = 2 },
	} {
		c := Quick()
		change(&c)
		got := ""
		if err := c.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: want %q", got, want)
		}
		if want != "" {
			if _, err := Run(t.Context(), c, nil); err == nil || err.Error() != want {
				t.Errorf("Run: %v: want %q", err, want)
			}
			if _, err := Simulate(c); err == nil || err.Error() != want {
				t.Errorf("Simulate: %v: want %q", err, want)
			}
		}
	}
	if d := Full().Duration(); d > 7*time.Minute {
		t.Errorf("all takes %v: want seven minutes at most", d)
	}
	if d := Quick().Duration(); d > time.Minute {
		t.Errorf("quick takes %v: want a minute at most", d)
	}
}

func TestPoint(t *testing.T) {
	a := answers{client: []trace.Record{
		{Intended: 99 * ms, Start: 99 * ms, End: 150 * ms, Status: 200}, // came before, served within
		{Intended: 100 * ms, Start: 101 * ms, End: 110 * ms, Status: 200},
		{Intended: 499 * ms, Start: 499 * ms, End: 500 * ms, Status: 200}, // served after
		{Intended: 150 * ms, Start: 152 * ms, End: 155 * ms, Status: http.StatusTooManyRequests},
		{Intended: 150 * ms, Start: 150 * ms, End: 157 * ms, Status: http.StatusServiceUnavailable},
		{Intended: 150 * ms, Start: 150 * ms, End: 650 * ms, Status: http.StatusGatewayTimeout},
		{Intended: 150 * ms, Start: 150 * ms, End: 151 * ms, Reason: trace.Reset},
		{Intended: 500 * ms, Start: 500 * ms, End: 501 * ms, Status: 200}, // came after
	}, server: []trace.Record{
		{Start: 99 * ms, End: 100 * ms, Status: http.StatusTooManyRequests},
		{Start: 100 * ms, End: 102 * ms, Status: http.StatusTooManyRequests},
		{Start: 100 * ms, End: 103 * ms, Status: http.StatusOK},
	}}
	got := a.point(offer{row: Row{Name: "row"}, rate: 7, duration: 500 * ms, skip: 0.2})
	near := func(d, want time.Duration) bool { return math.Abs(float64(d-want)) <= 0.001*float64(want) }
	if got.Row != "row" || got.Rate != 7 || got.Requests != 6 || got.Success != 2.0/6 || got.Goodput != 5 ||
		got.All.Count != 6 || got.Successes.Count != 2 || got.Failures.Count != 4 || !near(got.Failures.Max, 500*ms) ||
		!near(got.Successes.Max, 10*ms) || got.Refusals.Count != 2 || !near(got.Refusals.P50, 3*ms) || !near(got.Refusals.Max, 7*ms) ||
		got.Refusing.Count != 1 || !near(got.Refusing.P99, 2*ms) || !near(got.Sending.Max, 2*ms) {
		t.Errorf("%+v", got)
	}
	if p := (answers{}).point(offer{duration: ms}); p.Success != 0 || p.All != (Latency{}) {
		t.Errorf("%+v: want zeros", p)
	}
}

func TestCourse(t *testing.T) {
	var d []trace.Record
	for i := range 31 {
		at := time.Duration(i)*100*ms + 50*ms
		for range i % 3 {
			d = append(d, trace.Record{Intended: at - 10*ms, Start: at, End: at, Status: 200})
		}
		d = append(d, trace.Record{Intended: at, Start: at, End: at, Status: http.StatusServiceUnavailable})
		d = append(d, trace.Record{Intended: at - timeout, Start: at - timeout, End: at, Status: http.StatusGatewayTimeout})
	}
	c := course(offer{row: Row{Name: "row"}, duration: 3 * time.Second}, d)
	if len(c.Steps) != 30 || c.Step != 100*ms || c.Steps[4].Goodput != 10 || c.Steps[5].Goodput != 20 || c.Steps[6].P95 != 0 ||
		c.Steps[5].Refused != 10 || c.Steps[5].Late != 10 {
		t.Errorf("%+v", c)
	}
	if c.Goodput(0) != 10 || math.Round(c.P95(2).Seconds()*1000) != 10 {
		t.Errorf("%v, %v: want 10 a second, 10ms", c.Goodput(0), c.P95(2))
	}
	if s := c.String(); !strings.Contains(s, "row: goodput 10 before (p95 10.") || !strings.Contains(s, "after") {
		t.Error(s)
	}
}

func TestCompare(t *testing.T) {
	at := func(row string, rate, success, goodput float64, p time.Duration) Point {
		return Point{Row: row, Rate: rate, Success: success, Goodput: goodput, Successes: Latency{Count: 1, P50: p, P95: 2 * p}}
	}
	a := Result{Points: []Point{at("x", 1, 0.5, 100, 10*ms), at("x", 2, 1, 200, 0), at("y", 1, 1, 100, ms)}}
	b := Result{Points: []Point{at("x", 2, 0.75, 150, 0), at("x", 1, 0.5, 100, 20*ms), at("z", 1, 1, 100, ms)}}
	got := Compare(a, b)
	if got.Points != 2 || got.Success != (Distance{0.25, 0.25, "x", 2}) || got.Goodput.Most != 25 ||
		math.Abs(got.P50.Most-math.Ln2) > 1e-9 || got.P50.Row != "x" || got.P50.Rate != 1 || math.Abs(got.P95.Median-math.Ln2) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if s := got.String(); !strings.Contains(s, "2 points") || !strings.Contains(s, "(x at 2)") {
		t.Error(s)
	}
}

// A short run over HTTP, and its output in every format.
func TestRun(t *testing.T) {
	cfg := Quick()
	cfg.Rates, cfg.Point, cfg.Phase = []float64{40, 700}, 400*ms, 100*ms
	passed := time.Duration(0)
	r, err := Run(t.Context(), cfg, func(d time.Duration) { passed += d })
	if err != nil || len(r.Points) != 12 || len(r.Points) != cfg.Points() || len(r.Slow) != 2 || passed != cfg.Duration() {
		t.Fatalf("%v: %d points, %d courses, %v: want 12, 2, %v", err, len(r.Points), len(r.Slow), passed, cfg.Duration())
	}
	for _, p := range r.Points {
		if p.Requests == 0 || p.All.Count != p.Requests || p.Successes.Count+p.Failures.Count != p.All.Count {
			t.Errorf("%+v: want requests, each of one kind", p)
		}
	}
	var b bytes.Buffer
	for _, write := range []func() error{
		func() error { return r.Table(&b) }, func() error { return r.Markdown(&b) }, func() error { return r.CSV(&b) },
		func() error { return r.Draw(cfg.Setting, &b, "svg") }, func() error { return r.DrawSlow(cfg.Setting, &b, "svg") },
	} {
		b.Reset()
		if err := write(); err != nil || !strings.Contains(b.String(), "rate.Wait, 75 ms") || !strings.Contains(b.String(), Auto) {
			t.Errorf("%v, %.300s: want the rows", err, &b)
		}
	}
}

// A run that is interrupted returns the complete points.
func TestRunIsBrokenOff(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := Quick()
	cfg.Rates, cfg.Point, cfg.Phase = []float64{40, 80}, 300*ms, time.Minute
	passed := time.Duration(0)
	r, err := Run(ctx, cfg, func(d time.Duration) {
		if passed += d; passed > 300*ms {
			stop()
		}
	})
	if err != context.Canceled || len(r.Points) != 4 || len(r.Slow) != 0 {
		t.Errorf("%v, %d points: want it to end with the fourth", err, len(r.Points))
	}
}
