package sla

import (
	"strings"
	"testing"
	"time"
)

// Up to the agreed rate, the agreed share of the requests has to succeed. Beyond it, the
// agreed rate has to be served.
func TestJudge(t *testing.T) {
	agreed := Agreed()
	for _, tt := range []struct {
		rate, success float64
		requests      int
		p95           time.Duration
		want          string
	}{
		{100, 1, 10_000, 275 * ms, "pass"},
		{100, 1, 9_999, 20 * ms, "pass*"},
		{425, 0.9999, 10_000, 20 * ms, "pass"},
		{425, 0.9998, 10_000, 20 * ms, "FAIL: success 99.98 %"},
		{425, 0.5, 10, 300 * ms, "FAIL: success 50 %, P95 300 ms"},
		{425, 1, 10_000, 276 * ms, "FAIL: P95 276 ms"},
		{600, 0.7083, 100, 20 * ms, "pass"}, // 425 a second
		{600, 0.705, 100, 20 * ms, "pass"},  // 423 a second, within half a per cent
		{600, 0.7, 100, 20 * ms, "FAIL: 420 rps"},
		{600, 0, 100, 0, "FAIL: 0 rps"},
		{600, 0, 0, 0, "FAIL: no requests"},
	} {
		got := agreed.judge(Point{Rate: tt.rate, Success: tt.success, Requests: tt.requests, Successes: Latency{P95: tt.p95}}).String()
		if got != tt.want {
			t.Errorf("%g rps, success %g of %d, P95 %v: %q: want %q", tt.rate, tt.success, tt.requests, tt.p95, got, tt.want)
		}
	}
}

func TestSummary(t *testing.T) {
	r := Result{Agreed: Agreed(), Points: []Point{
		{Row: "a", Rate: 600, Verdict: Verdict{Why: "420 rps"}}, {Row: "b", Rate: 600, Verdict: Verdict{Pass: true}},
		{Row: "a", Rate: 400, Verdict: Verdict{Why: "P95 300 ms"}}, {Row: "b", Rate: 400, Verdict: Verdict{Pass: true, Few: true}},
	}}
	const want = `The agreement: 425 requests a second, P95 275ms, 99.99 % success.
  a: met at 0 of 2 rates; the lowest that breaks it is 400 (P95 300 ms)
  b: met at 2 of 2 rates
* 1 points had too few requests`
	if got := strings.Join(r.summary(), "\n"); !strings.HasPrefix(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// In virtual time, the source's setting has the source's results: the queue grows from
// 415 a second on, and a fifth of the requests succeed at 600 without a limit. The calls
// of the source took 0.22 ms longer than its parameters say; with that, its P95 at 425 was
// 168 ms.
func TestArticle(t *testing.T) {
	cfg := Article()
	if len(cfg.Rates) != 41 || cfg.Rates[40] != 600 || cfg.Setting.Capacity() < 416 || cfg.Setting.Capacity() > 418 {
		t.Fatalf("%v, capacity %v: want 400 to 600, and 417", cfg.Rates, cfg.Setting.Capacity())
	}
	cfg.Rates = []float64{400, 415, 425, 600}
	cfg.Setting.Work.Mean += 220 * time.Microsecond
	r, err := Simulate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Points {
		low, high, success := time.Duration(0), time.Duration(0), 0.0
		switch {
		case p.Row == "no limit" && p.Rate == 600:
			low, high, success = 450*ms, timeout, 0.22
		case p.Row != "rate.Wait, 75 ms":
			continue
		case p.Rate == 400:
			low, high, success = 25*ms, 40*ms, 1
		case p.Rate == 415:
			low, high, success = 40*ms, 65*ms, 1
		case p.Rate == 425:
			low, high, success = 132*ms, 198*ms, 1 // 165 ms, ± 20 %
		case p.Rate == 600:
			low, high, success = 200*ms, 275*ms, 0.72
		}
		if p.Successes.P95 < low || p.Successes.P95 > high || p.Success < success-0.015 || p.Success > success+0.015 {
			t.Errorf("%s at %g: P95 %v, success %.3f: want %v to %v, %.2f", p.Row, p.Rate, p.Successes.P95, p.Success, low, high, success)
		}
	}
}

// A point lasts until it has the requests that count.
func TestRequests(t *testing.T) {
	cfg := Quick()
	cfg.Requests = 10_000
	if got := cfg.point(400); got != 31250*ms {
		t.Errorf("%v: want 10,000 / 400 / 0.8", got)
	}
	cfg.Rates, cfg.Rows = []float64{400}, cfg.Rows[:1]
	r, err := Simulate(cfg)
	if err != nil || r.Points[0].Requests != 10_000 || r.Points[0].Verdict.Few || r.Points[0].All.P9999 < r.Points[0].All.P99 {
		t.Errorf("%v, %+v: want 10,000 requests that count", err, r.Points)
	}
}
