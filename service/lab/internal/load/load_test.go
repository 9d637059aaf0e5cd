package load_test

import (
	"cmp"
	"context"
	"crypto/tls"
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

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/report"
	"github.com/weir-go/weir/service/lab/internal/trace"
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
func offer(t *testing.T, cfg load.Config) (r report.Report, records []trace.Record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, records = run(t, t.Context(), cfg)
	})
	return r, records
}

func run(t *testing.T, ctx context.Context, cfg load.Config) (report.Report, []trace.Record) {
	t.Helper()
	cfg.Target = cmp.Or(cfg.Target, "http://service.test")
	if cfg.Timeout == 0 {
		cfg.Timeout = load.DefaultTimeout
	}
	c := report.NewCollector(cfg.Timeout)
	var records []trace.Record
	cfg.Record = func(r trace.Record) { c.Add(r); records = append(records, r) }
	offered, err := load.Run(ctx, cfg)
	testrig.Must(t, err)
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

// Without a rate, workers send as fast as the answers come, until the end of the run or
// the number of requests.
func TestUnpaced(t *testing.T) {
	for _, tt := range []struct {
		cfg      load.Config
		requests int
		elapsed  float64
	}{
		{load.Config{Workers: 4, Duration: 10 * s}, 40, 10},
		{load.Config{Workers: 4, Duration: 9500 * time.Millisecond}, 40, 9.5}, // the last ones are answered later
		{load.Config{Workers: 4, Requests: 10}, 10, 3},
		{load.Config{Workers: 4, Requests: 10, Profile: pace.Constant(0)}, 10, 3},
		{load.Config{Workers: 4, Requests: 3}, 3, 1},
	} {
		tt.cfg.Transport = takes(s)
		r, records := offer(t, tt.cfg)
		if r.Requests != tt.requests || r.Elapsed != tt.elapsed || r.ByStatus["200"] != tt.requests {
			t.Errorf("%v: %d requests in %v s: want %d in %v", tt.cfg, r.Requests, r.Elapsed, tt.requests, tt.elapsed)
		}
		if most := inflight(records); most > 4 {
			t.Errorf("%v: %d at once: there are 4 workers", tt.cfg, most)
		}
		near(t, "p99", r.Latency.Successes.P99, 1)
	}
}

func TestUnpacedIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		r, _ := run(t, ctx, load.Config{Workers: 3, Transport: takes(s)})
		if r.ByStatus["200"] != 6 || r.ByStatus["canceled"] != 3 {
			t.Errorf("%v: want 6 answers and 3 canceled", r.ByStatus)
		}
	})
}

// The number of requests bounds the run, and the rate counts until the next one would have
// been sent.
func TestRequests(t *testing.T) {
	for _, cfg := range []load.Config{
		{Requests: 20, Profile: pace.Constant(5)}, {Requests: 20, Profile: pace.Constant(5), Workers: 20}, {Requests: 20, Profile: pace.Constant(5), MaxInflight: 1},
	} {
		cfg.Transport = takes(s / 2)
		r, _ := offer(t, cfg)
		if r.Requests != 20 {
			t.Errorf("%v: %d requests: want 20", cfg, r.Requests)
		}
		if cfg.Workers == 0 { // a closed loop lasts until the last answer
			near(t, "offered", r.Offered, 5)
		}
	}
	r, _ := offer(t, load.Config{Requests: 20, Profile: pace.Constant(5), Duration: 2 * s, Transport: takes(0)})
	if r.Requests != 10 {
		t.Errorf("%d requests: the duration ends first, with 10", r.Requests)
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
		"unresolved":     dial(&net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}),
		"exhausted":      dial(syscall.EMFILE),
		"untrusted": func(*http.Request) (*http.Response, error) {
			return nil, &tls.CertificateVerificationError{Err: errors.New("unknown")}
		},
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

// OnFailure gets the error of one request, if its reason does not tell it.
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
	c := report.NewCollector(10 * s)
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
	testrig.Must(t, err)
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

// The rate of a profile that ends counts until its end, not until its last request.
func TestProfileEnds(t *testing.T) {
	for _, text := range []string{"5@2s", "5@2s,0"} {
		profile, err := pace.Parse(text)
		testrig.Must(t, err)
		r, _ := offer(t, load.Config{Profile: profile, Transport: takes(time.Millisecond)})
		near(t, text+": seconds", r.Elapsed, 2)
		near(t, text+": offered", r.Offered, 5)
	}
}
