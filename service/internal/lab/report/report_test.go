package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weir-go/weir/service/internal/lab/report"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

const (
	s  = time.Second
	ms = time.Millisecond
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.995-1e-9 || got > want*1.005+1e-9 {
		t.Errorf("%s: %v: want %v", what, got, want)
	}
}

// collect adds n records, evenly over a time, whose latencies and statuses a function
// gives.
func collect(n int, over time.Duration, record func(i int) (latency time.Duration, status int, reason string)) report.Report {
	c := report.NewCollector(time.Minute)
	for i := range n {
		due := over * time.Duration(i) / time.Duration(n)
		latency, status, reason := record(i)
		c.Add(trace.Record{Intended: due, Start: due, End: due + latency, Status: status, Reason: reason})
	}
	return c.Report(over)
}

func ok(latency time.Duration) func(int) (time.Duration, int, string) {
	return func(int) (time.Duration, int, string) { return latency, 200, "" }
}

// A client that could not send in time counts from when it should have.
func TestLatencyIsFromTheIntendedStart(t *testing.T) {
	c := report.NewCollector(2 * s)
	c.Add(trace.Record{Intended: s, Start: 3 * s, End: 4 * s, Status: 200})
	c.Add(trace.Record{Intended: 2 * s, Start: 3 * s, End: 4 * s, Status: 200})
	r := c.Report(4 * s)
	near(t, "max", r.Latency.Successes.Max, 3)
	near(t, "throughput", r.Throughput, 0.5)
	near(t, "goodput", r.Goodput, 0.25) // the first was too late
}

func TestCollectorIsBounded(t *testing.T) {
	c := report.NewCollector(s)
	for i := range 1000 {
		c.Add(trace.Record{Status: 503, Reason: fmt.Sprint("reason ", i), End: -s})
	}
	r := c.Report(s)
	if len(r.ByStatus) != 51 || r.ByStatus["other"] != 950 {
		t.Errorf("%d labels, %d others: want 50 and 950", len(r.ByStatus), r.ByStatus["other"])
	}
	if r := report.NewCollector(s).Report(0); r.Offered != 0 || r.Latency.All != nil {
		t.Errorf("%+v: of nothing", r)
	}
}

func TestReport(t *testing.T) {
	c := report.NewCollector(3 * s)
	for i := range 100 {
		c.Add(trace.Record{End: time.Duration(i+1) * 10 * time.Millisecond, Status: 200})
	}
	c.Add(trace.Record{End: 300 * time.Microsecond, Status: 503, Reason: "queue_full"})
	r := c.Report(20 * s)
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	const want = `offered     5.05 rps  101 requests in 20.0 s
throughput  5.00 rps  answered with success
goodput     5.00 rps  answered with success and in time
failed      1.0 %     1 requests

status          requests  share
200             100       99.0 %
503 queue_full  1         1.0 %

latency       p50    p75    p90    p95    p99  p99.9  p99.99    max   of
all         500ms  750ms  900ms  950ms  990ms      –       –     1s  101
successes   500ms  750ms  900ms  950ms  990ms      –       –     1s  100
rejections      –      –      –      –      –      –       –  300µs    1

latency of successes
  0s – 100ms 9 ████████████████████████████████████
  100ms – 200ms 10 ████████████████████████████████████████
  200ms – 300ms 10 ████████████████████████████████████████
  300ms – 400ms 10 ████████████████████████████████████████
  400ms – 500ms 10 ████████████████████████████████████████
  500ms – 600ms 10 ████████████████████████████████████████
  600ms – 700ms 10 ████████████████████████████████████████
  700ms – 800ms 10 ████████████████████████████████████████
  800ms – 900ms 10 ████████████████████████████████████████
  900ms – 1s 10 ████████████████████████████████████████
  1s – 1s 1 ████
`
	if got := b.String(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"offered_rps":5.05`, `"goodput_rps":5`, `"by_status":{"200":100,"503 queue_full":1}`, `"rejections":{"count":1`} {
		if !strings.Contains(string(data), field) {
			t.Errorf("%s: want %s", data, field)
		}
	}
}

// Each end of a request has its class, and the failures are counted.
func TestClasses(t *testing.T) {
	ends := []trace.Record{
		{Status: 200}, {Status: 302}, {Status: 404}, {Status: 503}, {Status: 101}, {Status: 7}, {Reason: trace.Timeout}, {Reason: "NOAUTH"},
		{Reason: trace.Sent}, {Reason: trace.Canceled}, {Reason: trace.Unsent},
	}
	c := report.NewCollector(s)
	for _, r := range ends {
		c.Add(r)
	}
	r := c.Report(s)
	if got := fmt.Sprint(r.ByClass); got != "map[1xx:1 2xx:1 3xx:1 4xx:1 5xx:1 canceled:1 error:2 other:1 sent:1 unsent:1]" || r.Failed != 6 || r.Succeeded != 3 {
		t.Errorf("%s, %d failed, %d succeeded: want 6 and 3", got, r.Failed, r.Succeeded)
	}
	near(t, "failed", r.FailedShare, 6.0/11)
	if line := c.Live(10 * s); !strings.Contains(line, "  10 s  offered 1.1 rps, goodput 0.3 rps, failed 6 (54.5 %), p99 of successes 1µs") {
		t.Errorf("%q", line)
	}
}

// A report that is written and read again is the same.
func TestParse(t *testing.T) {
	r := collect(5000, 50*s, func(i int) (time.Duration, int, string) {
		return time.Duration(i%977+1) * ms, []int{200, 200, 200, 503, 0}[i%5], []string{"", "", "", "queue_full", trace.Refused}[i%5]
	})
	r.Target, r.Load, r.Began, r.Traffic = "http://h", "open loop", time.Unix(1e9, 0).UTC(), report.Traffic{Connections: 3, Sent: 5, Received: 7}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	got, err := report.Parse(text.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := got.Write(&again); err != nil || again.String() != text.String() {
		t.Errorf("%v, %.2000s\nwant\n%.2000s", err, &again, &text)
	}
	for _, p := range []float64{1, 50, 99.9, 100} {
		if a, b := got.Latency.Successes.At(p), r.Latency.Successes.At(p); a != b || a == 0 {
			t.Errorf("p%v: %v: want %v", p, a, b)
		}
	}
}

func TestParseErrors(t *testing.T) {
	r := collect(10, s, ok(ms))
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	good := text.String()
	if _, err := report.Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	hdr := regexp.MustCompile(`"hdr": "[^"]*"`)
	for text, want := range map[string]string{
		"":                                       "not a report of weir load: unexpected end",
		"[]":                                     "not a report of weir load",
		`{"requests": 5}`:                        "not a report of weir load, or one without requests",
		hdr.ReplaceAllString(good, `"hdr": "x"`): "hdr: illegal base64",
		hdr.ReplaceAllString(good, `"hdr": "AAAA"`):                                       "hdr: encoded histogram too short",
		strings.ReplaceAll(good, `"count": 10`, `"count": 11`):                            "it has 10 latencies from 1 µs to 1h0m0s: want count = 11",
		strings.Replace(good, `"at": 0`, `"at": -1`, 1):                                   "series[0]: -1: must be in [0, 1e+12]",
		strings.Replace(good, `"series": [`, `"series": [`+strings.Repeat("{},", 300), 1): "series: 310 slots: must be at most 256",
		strings.Repeat(" ", report.MaxBytes+1):                                            "more than 67108864 bytes",
	} {
		if _, err := report.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v: want %q", text, err, want)
		}
	}
}

// Whatever the file, Parse returns a report that can be shown, or an error.
func FuzzParse(f *testing.F) {
	var text bytes.Buffer
	if err := collect(10, s, ok(ms)).Write(&text); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := report.Parse(data)
		if err != nil {
			return
		}
		var out bytes.Buffer
		c := report.Compare(report.Run{Report: r}, report.Run{Report: r})
		for _, write := range []func() error{
			func() error { return r.Table(&out) }, func() error { return r.Percentiles(&out) },
			func() error { return c.Table(&out) }, func() error { return r.Page(&out, false, nil) },
		} {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Over time: a stall shows in the slots in which the requests were due, and failures where
// they ended.
func TestSeries(t *testing.T) {
	r := collect(10_000, 100*s, func(i int) (time.Duration, int, string) {
		switch due := time.Duration(i) * 10 * ms; {
		case due >= 40*s && due < 50*s:
			return 60*s - due, 200, ""
		case i%10 == 0:
			return 5 * s, 0, trace.Timeout
		default:
			return 10 * ms, 200, ""
		}
	})
	if len(r.Series) < 60 || len(r.Series) > 128 {
		t.Fatalf("%d slots: want at most 128", len(r.Series))
	}
	for _, slot := range r.Series {
		if slot.At < 99 {
			near(t, fmt.Sprint("offered at ", slot.At), slot.Offered, 100)
		}
		stalled := slot.At >= 40 && slot.At+slot.Length <= 50
		if slot.At > 52 && slot.At < 99 || slot.At > 1 && slot.At+slot.Length < 40 {
			near(t, fmt.Sprint("p99 at ", slot.At), math.Round(slot.P99*100)/100, 0.01)
		}
		if stalled && (slot.P50 < 60-slot.At-slot.Length-0.5 || slot.P50 > (60-slot.At)*1.01) {
			t.Errorf("at %v: p50 %v: want about %v", slot.At, slot.P50, 60-slot.At)
		}
		if slot.At > 60 && slot.At < 99 || slot.At > 5 && slot.At+slot.Length < 40 {
			if slot.Failed < 8 || slot.Failed > 12 {
				t.Errorf("at %v: %v failed a second: want 10", slot.At, slot.Failed)
			}
		}
	}
}

// A series of any length has a bounded number of slots, and keeps all requests.
func TestSeriesIsBounded(t *testing.T) {
	for _, over := range []time.Duration{ms, s, time.Hour, 1000 * time.Hour} {
		r := collect(3000, over, ok(ms))
		sum := 0.0
		for _, slot := range r.Series {
			sum += slot.Offered * slot.Length
		}
		if len(r.Series) == 0 || len(r.Series) > 128 || math.Abs(sum-3000) > 60 { // a short slot at the end is left out
			t.Errorf("%v: %d slots with %v requests: want at most 128, and 3000", over, len(r.Series), sum)
		}
	}
	if r := report.NewCollector(s).Report(s); len(r.Series) != 0 {
		t.Errorf("%v: of nothing", r.Series)
	}
}

func TestThresholds(t *testing.T) {
	some := collect(1000, 10*s, func(i int) (time.Duration, int, string) {
		if i%50 == 0 {
			return ms, 503, "queue_full"
		}
		return time.Duration(i) * ms, 200, ""
	})
	none := collect(10, s, func(i int) (time.Duration, int, string) { return ms, 0, trace.Refused })
	left := collect(10, s, func(i int) (time.Duration, int, string) { return ms, 0, trace.Canceled })
	lines := collect(10, s, func(i int) (time.Duration, int, string) { return ms, 0, trace.Sent })
	share := func(x float64) *float64 { return &x }
	latency := func(p float64, most time.Duration) report.Thresholds {
		return report.Thresholds{Latency: []report.Bound{{Percentile: p, Most: most}}}
	}
	for _, tt := range []struct {
		r    report.Report
		t    report.Thresholds
		want string
	}{
		{some, report.Thresholds{}, "[]"}, {left, report.Thresholds{}, "[]"}, {lines, report.Thresholds{}, "[]"},
		{report.NewCollector(s).Report(s), report.Thresholds{}, "[]"},
		{none, report.Thresholds{}, "[no request succeeded: 10 of 10 requests: refused (connection refused)]"},
		{none, report.Thresholds{Failed: share(1)}, "[]"},
		{none, latency(99, s), "[no request succeeded: 10 of 10 requests: refused (connection refused) p99 of successes: there are none: must be <= 1s]"},
		{some, report.Thresholds{Failed: share(0.02)}, "[]"},
		{some, report.Thresholds{Failed: share(0.01)}, "[failed = 2.0 %: must be <= 1.0 %: 20 of 1000 requests: 503 queue_full]"},
		{some, latency(50, 500*ms), "[]"},
		{some, latency(50, 490*ms), "[p50 of successes = 499ms: must be <= 490ms]"},
		{some, latency(99.9, 900*ms), "[p99.9 of successes = 998ms: must be <= 900ms]"},
		{some, latency(100, 999*ms), "[]"},
		{some, latency(100, 990*ms), "[max of successes = 999ms: must be <= 990ms]"},
		{some, report.Thresholds{Goodput: 98}, "[]"},
		{some, report.Thresholds{Goodput: 99}, "[goodput = 98.00 rps: must be >= 99]"},
	} {
		if got := fmt.Sprint(tt.t.Check(tt.r)); got != tt.want {
			t.Errorf("%+v: %s: want %s", tt.t, got, tt.want)
		}
	}
}

// Two runs differ if the difference is larger than the noise within them.
func TestCompare(t *testing.T) {
	spread := func(n int, scale float64, failing int) report.Run {
		r := collect(n, 20*s, func(i int) (time.Duration, int, string) {
			if failing > 0 && i%failing == 0 {
				return ms, 503, ""
			}
			return time.Duration(scale * float64(10*ms+time.Duration(i*7919%1000)*100*time.Microsecond)), 200, ""
		})
		return report.Run{Name: fmt.Sprint(n, scale), Report: r}
	}
	verdicts := func(a, b report.Run) map[string]string {
		got := map[string]string{}
		for _, f := range report.Compare(a, b).Figures {
			got[f.Name] = f.Verdict
		}
		return got
	}
	base := spread(10_000, 1, 0)
	for _, tt := range []struct {
		name                    string
		b                       report.Run
		p50, p99, failed, goods string
	}{
		{"the same", base, "same", "same", "same", "same"},
		{"half a per cent", spread(10_000, 1.005, 0), "same", "same", "same", "same"},
		{"a fifth slower", spread(10_000, 1.2, 0), "worse", "worse", "same", "same"},
		{"a fifth faster", spread(10_000, 0.8, 0), "better", "better", "same", "same"},
		{"one in a hundred fails", spread(10_000, 1, 100), "same", "same", "worse", "worse"},
		{"fewer requests, as slow", spread(500, 1, 0), "same", "unknown", "same", "worse"},
	} {
		got := verdicts(base, tt.b)
		if got["p50"] != tt.p50 || got["failed"] != tt.failed || got["throughput"] != tt.goods || tt.p99 != "unknown" && got["p99"] != tt.p99 {
			t.Errorf("%s: %v: want p50 %s, p99 %s, failed %s, throughput %s", tt.name, got, tt.p50, tt.p99, tt.failed, tt.goods)
		}
		if got["max"] != "unknown" {
			t.Errorf("%s: max is %s: one request tells no noise", tt.name, got["max"])
		}
	}
	c := report.Compare(base, spread(10_000, 1.2, 100))
	if worse := c.Regressions(0.1); len(worse) < 4 || !strings.Contains(fmt.Sprint(worse), "p50: 71.9ms") || strings.Contains(fmt.Sprint(worse), "failed") {
		t.Errorf("%q: want the latencies, which are a fifth worse, and not the failures", worse)
	}
	if worse := c.Regressions(0.25); len(worse) != 0 {
		t.Errorf("%q: want none", worse)
	}
	var b strings.Builder
	if err := c.Table(&b); err != nil || !regexp.MustCompile(`(?m)^p99 +\S+ +\S+ +\+[12]\d\.\d %  worse$`).MatchString(b.String()) {
		t.Errorf("%v\n%s", err, &b)
	}
	data, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(data), `"name":"p99"`) || strings.Contains(string(data), "hdr") {
		t.Errorf("%v, %.300s", err, data)
	}
}

// A scrape has the buckets, and percentiles that are interpolated within a bucket, as
// Prometheus does, are nearly right.
func TestMetrics(t *testing.T) {
	for _, latency := range []time.Duration{ms, 20 * ms, 999 * ms, s, 1003 * ms, 3 * s, 70 * s} {
		m := report.NewMetrics(func() report.Traffic { return report.Traffic{Connections: 4, Sent: 5, Received: 6} }, func() int64 { return 7 })
		for i := range 100 {
			m.Add(trace.Record{End: latency, Status: 200})
			m.Add(trace.Record{End: latency, Status: 503, Reason: fmt.Sprint("reason ", i)})
			m.Add(trace.Record{End: latency, Reason: trace.Refused})
			m.Add(trace.Record{End: latency, Reason: trace.Canceled})
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]float64{
			"weir_load_connections_total": 4, "weir_load_sent_bytes_total": 5, "weir_load_received_bytes_total": 6, "weir_load_inflight_requests": 7,
		} {
			metric := families[name].GetMetric()[0]
			if got := metric.GetCounter().GetValue() + metric.GetGauge().GetValue(); got != want {
				t.Errorf("%s: %v: want %v", name, got, want)
			}
		}
		if n := len(families["weir_load_requests_total"].GetMetric()); n != 51 {
			t.Errorf("%d statuses: want 50, and other", n)
		}
		outcomes := families["weir_load_latency_seconds"].GetMetric()
		if len(outcomes) != 3 {
			t.Fatalf("%d outcomes: want three", len(outcomes))
		}
		for _, metric := range outcomes {
			for _, q := range []float64{0.01, 0.5, 0.95, 0.99} {
				if got := quantile(metric.GetHistogram(), q); math.Abs(got/latency.Seconds()-1) > 0.1 || latency > 900*ms && latency < 1100*ms && math.Abs(got/latency.Seconds()-1) > 0.05 {
					t.Errorf("all took %v: the %v quantile is %v", latency, q, got)
				}
			}
			if h := metric.GetHistogram(); h.GetSampleCount() != 100 {
				t.Errorf("%v: %d: want 100", metric.GetLabel(), h.GetSampleCount())
			}
		}
	}
}

// quantile interpolates, like histogram_quantile of Prometheus.
func quantile(h *dto.Histogram, q float64) float64 {
	rank, below, from := q*float64(h.GetSampleCount()), 0.0, 0.0
	for _, b := range h.GetBucket() {
		if n := float64(b.GetCumulativeCount()); n >= rank {
			return from + (b.GetUpperBound()-from)*(rank-below)/(n-below)
		} else {
			below = n
		}
		from = b.GetUpperBound()
	}
	return from
}

// The boundaries grow by a tenth, and no round number is at a boundary.
func TestBuckets(t *testing.T) {
	buckets := report.Buckets()
	if len(buckets) > 160 || buckets[0] > 0.0002 || buckets[len(buckets)-1] < 120 {
		t.Errorf("%d from %v to %v", len(buckets), buckets[0], buckets[len(buckets)-1])
	}
	for i := 1; i < len(buckets); i++ {
		if ratio := buckets[i] / buckets[i-1]; ratio < 1.09 || ratio > 1.11 {
			t.Errorf("%v after %v", buckets[i], buckets[i-1])
		}
		for _, round := range []float64{0.001, 0.01, 0.1, 1, 10, 100} {
			if math.Abs(buckets[i]/round-1) < 0.03 {
				t.Errorf("%v is at %v", buckets[i], round)
			}
		}
	}
}

// The page has all parts, no other file, and what it shows is escaped.
func TestPage(t *testing.T) {
	r := collect(2000, 20*s, func(i int) (time.Duration, int, string) {
		return time.Duration(i%100+1) * ms, []int{200, 200, 503}[i%3], []string{"", "", "<b>"}[i%3]
	})
	r.Target, r.Load = "http://h/<script>", "open loop"
	r.Traffic = report.Traffic{Connections: 1, Sent: 2048, Received: 3 << 20}
	var b strings.Builder
	if err := r.Page(&b, true, []string{"p99 > 1"}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"http://h/&lt;script&gt;", "503 &lt;b&gt;", "✗ p99 &gt; 1", "Latency by percentile", "99.9 %", "2.0 KiB sent", "3.0 MiB", "Latency of successes", "<i style=\"width:100.00%\">"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q in the page", want)
		}
	}
	for _, bad := range []string{"<script", "src=", "href=", "<?xml", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("%q in a page that needs no other file", bad)
		}
	}
	none := collect(10, s, func(int) (time.Duration, int, string) { return ms, 0, trace.Refused })
	b.Reset()
	if err := none.Page(&b, false, nil); err != nil || !strings.Contains(b.String(), "connection refused") || strings.Contains(b.String(), "✓") {
		t.Errorf("%v: want a page of failures", err)
	}
	b.Reset()
	c := report.Compare(report.Run{Name: "a.json", Report: r}, report.Run{Name: "b.json", Report: none})
	if err := c.Page(&b, true, nil); err != nil || !strings.Contains(b.String(), "a.json") || !strings.Contains(b.String(), "✓ All thresholds are kept.") {
		t.Errorf("%v: want a page of the comparison", err)
	}
}
