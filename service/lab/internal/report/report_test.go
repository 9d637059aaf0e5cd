package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
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

// collect adds n records, evenly over a time. A function gives their latencies and
// statuses.
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
	testrig.Must(t, r.Table(&b))
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
	testrig.Must(t, err)
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
	testrig.Must(t, r.Write(&text))
	got, err := report.Parse(text.Bytes())
	testrig.Must(t, err)
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
	testrig.Must(t, r.Write(&text))
	good := text.String()
	if _, err := report.Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	hdr := regexp.MustCompile(`"hdr": "[^"]*"`)
	for text, want := range map[string]string{
		"":                                       "not a report of weirlab load: unexpected end",
		"[]":                                     "not a report of weirlab load",
		`{"requests": 5}`:                        "not a report of weirlab load, or one without requests",
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
			testrig.Must(t, write())
		}
	})
}

// The bounds of each bar differ in the digits that are shown, also if all latencies are nearly equal.
func TestBarsOfEqualLatencies(t *testing.T) {
	var out strings.Builder
	r := collect(1000, time.Second, func(i int) (time.Duration, int, string) {
		return time.Second + time.Duration(i)*time.Microsecond, 200, ""
	})
	testrig.Must(t, r.Table(&out))
	if !strings.Contains(out.String(), "successes\n  1s – 1.02s      1000  █") {
		t.Errorf("%s: want one bar, from 1s to 1.02s", &out)
	}
}
