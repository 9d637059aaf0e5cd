package load_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

const s = time.Second

// A server in memory that answers in virtual time.
type server func(*http.Request) (*http.Response, error)

func (f server) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok"))}
}

// takes is a server that answers 200 after d.
func takes(d time.Duration) server {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return answer(200), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// offer runs cfg in virtual time and returns the report.
func offer(t *testing.T, cfg load.Config) (report load.Report, records []trace.Record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		report, records = run(t, t.Context(), cfg)
	})
	return report, records
}

func run(t *testing.T, ctx context.Context, cfg load.Config) (load.Report, []trace.Record) {
	t.Helper()
	cfg.Target = cmp.Or(cfg.Target, "http://service.test")
	if cfg.Timeout == 0 {
		cfg.Timeout = load.DefaultTimeout
	}
	c := load.NewCollector(cfg.Timeout)
	var records []trace.Record
	cfg.Record = func(r trace.Record) { c.Add(r); records = append(records, r) }
	offered, err := load.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.Report(offered), records
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.995-1e-9 || got > want*1.005+1e-9 {
		t.Errorf("%s: %v: want %v", what, got, want)
	}
}

func TestOpenLoop(t *testing.T) {
	r, records := offer(t, load.Config{Profile: pace.Constant(5), Duration: 10 * s, Transport: takes(2 * s)})
	near(t, "offered", r.Offered, 5)
	near(t, "throughput", r.Throughput, 5)
	near(t, "goodput", r.Goodput, 5)
	near(t, "p50", r.Latency.Successes.P50, 2)
	near(t, "max", r.Latency.All.Max, 2)
	if r.Latency.Rejections != nil {
		t.Errorf("%+v: there were no rejections", r.Latency.Rejections)
	}
	if len(records) != 50 || r.Requests != 50 || r.ByStatus["200"] != 50 || r.Elapsed != 10 {
		t.Errorf("%d records, %+v: want 50 in 10 s", len(records), r)
	}
}

// The requests during a stall, and their waits, are counted: no coordinated omission.
func TestStallIsSeen(t *testing.T) {
	stalls := func() server {
		began := time.Now()
		return func(*http.Request) (*http.Response, error) {
			if at := time.Since(began); at >= 10*s && at < 20*s {
				time.Sleep(20*s - at)
			}
			return answer(200), nil
		}
	}
	cfg := load.Config{Profile: pace.Constant(10), Duration: 100 * s, Timeout: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		cfg.Transport = stalls()
		r, _ := run(t, t.Context(), cfg)
		// One request in ten falls into the stall, and waits 5 s on average.
		near(t, "open loop: p95", r.Latency.All.P95, 5)
		near(t, "open loop: p99", r.Latency.All.P99, 9)
		near(t, "open loop: offered", r.Offered, 10)
	})
	synctest.Test(t, func(t *testing.T) {
		cfg.Transport, cfg.Workers = stalls(), 1
		r, _ := run(t, t.Context(), cfg)
		// The closed loop misses the same stall.
		near(t, "closed loop: p99", r.Latency.All.P99, 0.000001)
		near(t, "closed loop: offered", r.Offered, 9.01)
	})
}

// A client that could not send in time counts from when it should have.
func TestLatencyIsFromTheIntendedStart(t *testing.T) {
	c := load.NewCollector(2 * s)
	c.Add(trace.Record{Intended: s, Start: 3 * s, End: 4 * s, Status: 200})
	c.Add(trace.Record{Intended: 2 * s, Start: 3 * s, End: 4 * s, Status: 200})
	r := c.Report(4 * s)
	near(t, "max", r.Latency.Successes.Max, 3)
	near(t, "throughput", r.Throughput, 0.5)
	near(t, "goodput", r.Goodput, 0.25) // the first was too late
}

// 10 workers, 5 rps, 2.5 s time-out. If there is no answer, each worker sends once
// in 2.5 s.
func TestClosedLoop(t *testing.T) {
	cfg := load.Config{Profile: pace.Constant(5), Workers: 10, Timeout: 2500 * time.Millisecond, Duration: 100 * s}
	for _, tt := range []struct {
		name    string
		service time.Duration
		offered float64
		goodput float64
	}{
		{"a fast service gets what the pace allows", s, 5, 5},
		{"a silent one gets what the workers can do", time.Hour, 4, 0},
	} {
		cfg.Transport = takes(tt.service)
		r, records := offer(t, cfg)
		near(t, tt.name+": goodput", r.Goodput, tt.goodput)
		if r.Offered < tt.offered*0.97 || r.Offered > tt.offered*1.01 {
			t.Errorf("%s: offered %v: want %v", tt.name, r.Offered, tt.offered)
		}
		if most := inflight(records); most > 10 {
			t.Errorf("%s: %d at once: there are 10 workers", tt.name, most)
		}
	}
}

// inflight is the most that was in flight at once.
func inflight(records []trace.Record) (most int) {
	for _, r := range records {
		n := 0
		for _, o := range records {
			if o.Start <= r.Start && r.Start < o.End {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestClosedLoopDoesNotMakeUp(t *testing.T) {
	// One worker at 10 rps, and a service that takes 1 s once.
	slow := true
	_, records := offer(t, load.Config{Profile: pace.Constant(10), Workers: 1, Duration: 3 * s, Transport: server(
		func(*http.Request) (*http.Response, error) {
			if slow {
				slow = false
				time.Sleep(s)
			}
			return answer(200), nil
		})})
	for i := 2; i < len(records); i++ {
		if gap := records[i].Start - records[i-1].Start; gap < 99*time.Millisecond {
			t.Fatalf("request %d follows after %v: what was missed is lost", i, gap)
		}
	}
	if len(records) < 20 || len(records) > 22 {
		t.Errorf("%d requests: want about 21 in 2 s", len(records))
	}
}

func TestUnsent(t *testing.T) {
	r, _ := offer(t, load.Config{Profile: pace.Constant(10), Duration: 10 * s, MaxInflight: 5, Timeout: 20 * s, Transport: takes(time.Hour)})
	if r.ByStatus["unsent"] != 95 || r.ByStatus["timeout"] != 5 {
		t.Errorf("%v: want 95 unsent and 5 timeouts", r.ByStatus)
	}
	near(t, "offered", r.Offered, 10)
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, workers := range []int{0, 5} {
			ctx, cancel := context.WithTimeout(t.Context(), 5100*time.Millisecond)
			began := time.Now()
			r, _ := run(t, ctx, load.Config{Profile: pace.Constant(1), Workers: workers, Transport: takes(2 * s)})
			cancel()
			if took := time.Since(began); took != 5100*time.Millisecond {
				t.Errorf("%d workers: it took %v to end after 5.1s", workers, took)
			}
			if r.ByStatus["200"] != 4 || r.ByStatus["canceled"] != 2 {
				t.Errorf("%d workers: %v: want 4 answers and 2 canceled", workers, r.ByStatus)
			}
		}
	})
}

func TestWhatCameBack(t *testing.T) {
	dial := func(err error) server {
		return func(*http.Request) (*http.Response, error) { return nil, &net.OpError{Op: "dial", Err: err} }
	}
	full := answer(503)
	full.Header.Set("Weir-Reason", "queue_full")
	broken := answer(200)
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), errReader{io.ErrUnexpectedEOF}))
	moved := answer(302)
	moved.Header.Set("Location", "http://elsewhere.test")
	for want, srv := range map[string]server{
		"404":            func(*http.Request) (*http.Response, error) { return answer(404), nil },
		"302":            func(*http.Request) (*http.Response, error) { return moved, nil },
		"503 queue_full": func(*http.Request) (*http.Response, error) { return full, nil },
		"refused":        dial(syscall.ECONNREFUSED),
		"reset":          dial(syscall.ECONNRESET),
		"failed":         dial(errors.New("a bug")),
		"timeout":        takes(time.Hour),
	} {
		r, _ := offer(t, load.Config{Profile: pace.Constant(1), Duration: s, Transport: srv})
		if r.ByStatus[want] != 1 {
			t.Errorf("%v: want one %s", r.ByStatus, want)
		}
	}
	r, _ := offer(t, load.Config{Profile: pace.Constant(1), Duration: s,
		Transport: server(func(*http.Request) (*http.Response, error) { return broken, nil })})
	if r.ByStatus["reset"] != 1 || r.Latency.Successes != nil {
		t.Errorf("%+v: an answer that breaks off is none", r)
	}
}

// OnFailure gets one error, of the requests whose reason does not tell it.
func TestOnFailure(t *testing.T) {
	var got []error
	srv := server(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/1" {
			return nil, syscall.ECONNREFUSED
		}
		return nil, fmt.Errorf("bug %s", r.URL.Path)
	})
	r, _ := offer(t, load.Config{Target: "http://127.0.0.1/{n}", Profile: pace.Constant(1), Duration: 4 * s, Transport: srv,
		OnFailure: func(err error) { got = append(got, err) }})
	if r.ByStatus["refused"] != 1 || r.ByStatus["failed"] != 3 || len(got) != 1 || !strings.Contains(got[0].Error(), "bug /2") {
		t.Errorf("%v: OnFailure got %v", r.ByStatus, got)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestPoissonArrivals(t *testing.T) {
	cfg := load.Config{Profile: pace.Constant(10), Duration: 100 * s, Poisson: true, Seed: 3, Transport: takes(0)}
	_, a := offer(t, cfg)
	_, b := offer(t, cfg)
	if len(a) < 850 || len(a) > 1150 { // five standard deviations about 1000
		t.Errorf("%d requests: want about 1000", len(a))
	}
	if len(a) != len(b) || a[500].Intended != b[500].Intended {
		t.Error("the same seed gives other arrivals")
	}
	if a[1].Intended-a[0].Intended == a[2].Intended-a[1].Intended {
		t.Error("they are evenly spaced")
	}
}

// Over real HTTP: the request is as configured.
func TestRealServer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != "PUT" || r.Header.Get("Who") != "me" || r.Host != "shop.example" || string(body) != "hello" {
			t.Errorf("%s, %v, host %s, %q, %v", r.Method, r.Header, r.Host, body, err)
		}
	}))
	defer srv.Close()
	c := load.NewCollector(10 * s)
	_, err := load.Run(t.Context(), load.Config{
		Target: srv.URL, Method: "PUT", Header: http.Header{"Who": {"me"}, "Host": {"shop.example"}}, Body: "hello",
		Profile: pace.Constant(1000), Duration: 100 * time.Millisecond,
		Record: func(r trace.Record) {
			c.Add(r)
			if r.Intended%time.Millisecond != 0 || r.Start < r.Intended {
				t.Errorf("%+v: intended not when it was due", r)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Report(s); r.ByStatus["200"] != 100 {
		t.Errorf("%v: want 100 answers", r.ByStatus)
	}
}

// The number of the request replaces {n} in the path, in the query and in the body.
func TestNumbers(t *testing.T) {
	var got []string
	_, records := offer(t, load.Config{
		Target: "http://service.test/users/{n}?again={n}", Body: "{n},{n}", Profile: pace.Constant(1), Duration: 2 * s, MaxInflight: 1,
		Transport: server(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			got = append(got, fmt.Sprint(r.URL.Path, " ", r.URL.Query().Get("again"), " ", string(body), err))
			return answer(200), nil
		}),
	})
	if want := "[/users/1 1 1,1<nil> /users/2 2 2,2<nil>]"; fmt.Sprint(got) != want || len(records) != 2 {
		t.Errorf("%v: want %v", got, want)
	}
}

func TestCollectorIsBounded(t *testing.T) {
	c := load.NewCollector(s)
	for i := range 1000 {
		c.Add(trace.Record{Status: 503, Reason: fmt.Sprint("reason ", i), End: -s})
	}
	r := c.Report(s)
	if len(r.ByStatus) != 51 || r.ByStatus["other"] != 950 {
		t.Errorf("%d labels, %d others: want 50 and 950", len(r.ByStatus), r.ByStatus["other"])
	}
	if r := load.NewCollector(s).Report(0); r.Offered != 0 || r.Latency.All != nil {
		t.Errorf("%+v: of nothing", r)
	}
}

func TestReport(t *testing.T) {
	c := load.NewCollector(3 * s)
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

status          requests  share
200             100       99.0 %
503 queue_full  1         1.0 %

latency     p50    p95      p99      max    of
all         500ms  950ms    990ms    1s     101
successes   500ms  950ms    990ms    1s     100
rejections  300µs  300µs  300µs  300µs  1
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

func TestConfigValidate(t *testing.T) {
	good := load.Config{Target: "http://a", Profile: pace.Constant(1)}
	for want, spoil := range map[string]func(*load.Config){
		`target = "a": must be a URL with a host`: func(c *load.Config) { c.Target = "a" },
		`target = "ftp://a"`:                      func(c *load.Config) { c.Target = "ftp://a" },
		`target = "http://a b"`:                   func(c *load.Config) { c.Target = "http://a b" },
		`workers = -1`:                            func(c *load.Config) { c.Workers = -1 },
		`timeout = -1s`:                           func(c *load.Config) { c.Timeout = -s },
		`duration = -1s`:                          func(c *load.Config) { c.Duration = -s },
		`max_inflight = -1`:                       func(c *load.Config) { c.MaxInflight = -1 },
		`invalid method "a b"`:                    func(c *load.Config) { c.Method = "a b" },
		`rate = -1`:                               func(c *load.Config) { c.Profile = pace.Constant(-1) },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := load.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for target, ok := range map[string]bool{
		"http://127.0.0.1:8000": true, "http://127.9.9.9": true, "http://[::1]:80/x": true, "http://localhost": true,
		"http://[::ffff:127.0.0.1]": true, "http://192.0.2.1": false, "http://0.0.0.0": false, "http://[2001:db8::1]": false,
		"grpc://127.0.0.1:1/d?k=v": true, "redis://:s@127.0.0.1:1": true, "udp://192.0.2.1:8125": false, "redis://:s@192.0.2.1:1": false,
		"http://": false, "http://no.such.host.invalid": false,
	} {
		if err := load.Loopback(t.Context(), target); (err == nil) != ok {
			t.Errorf("%s: %v: want it to be ours: %v", target, err, ok)
		}
	}
}
