//go:build system

package replay

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/advise"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/origin"
	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A real run is a service and a load, in real time.
type real struct {
	name    string
	origin  origin.Config
	rate    string
	timeout time.Duration
	limit   string                  // at the service, which records then; empty if the load generator does
	during  func(o []*origin.Origin) // changes something
	origins int
	refused string // the reason why the model does not hold; empty if it does
}

func (s real) length(t *testing.T) time.Duration {
	p, err := pace.Parse(s.rate)
	testrig.Must(t, err)
	end, _ := p.End()
	return end
}

// limiter returns the shipped limit of a name.
func limiter(t *testing.T, name string, rec *recording.Recorder) *inflight.Limiter {
	var l Limit
	testrig.Must(t, l.UnmarshalText([]byte(name)))
	cfg := inflight.Config{Recorder: rec}
	if l.Name == "fixed" {
		cfg.Algorithm = limit.Fixed(l.N)
	}
	lim, err := inflight.New(cfg)
	testrig.Must(t, err)
	return lim
}

// run plays it, and returns the recording.
func (s real) run(t *testing.T) *recorded.File {
	t.Helper()
	var services []*origin.Origin
	for range max(s.origins, 1) {
		o, err := origin.New(s.origin)
		testrig.Must(t, err)
		services = append(services, o)
	}
	var handler http.Handler = services[0]
	var rec *recording.Recorder
	if s.limit != "" {
		var err error
		rec, err = recording.New(recording.Config{})
		testrig.Must(t, err)
		m, err := httplimit.New(httplimit.Config{Limiter: limiter(t, s.limit, nil), Recorder: rec})
		testrig.Must(t, err)
		handler = m.Handler(handler)
	}
	srv := httptest.NewServer(handler)
	defer srv.Close()
	profile, err := pace.Parse(s.rate)
	testrig.Must(t, err)
	var b bytes.Buffer
	epoch := time.Now()
	if rec != nil {
		epoch = rec.Epoch()
	}
	w := recording.NewWriter(&b, epoch)
	if s.during != nil {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() {
			if load.Sleep(ctx, s.length(t)/2) == nil {
				s.during(services)
			}
		})
	}
	timeout := s.timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	_, err = load.Run(t.Context(), load.Config{
		Target: srv.URL, Profile: profile, Poisson: true, Seed: 5, Timeout: timeout, Duration: s.length(t),
		Record: func(r trace.Record) {
			if rec == nil {
				record := advise.FromTrace(r)
				record.Deadline = r.Start + timeout
				_ = w.Write(record)
			}
		},
	})
	testrig.Must(t, err)
	if rec != nil {
		testrig.Must(t, rec.Drain(w))
	}
	testrig.Must(t, w.Flush())
	if d := os.Getenv("RP_DIR"); d != "" { // DEBUG
		_ = os.WriteFile(d+"/"+strings.ReplaceAll(s.name, " ", "_")+".rec", b.Bytes(), 0o600)
	}
	f, err := recorded.Read(&b, s.name)
	testrig.Must(t, err)
	return f
}

func served(workers int, mean time.Duration, distribution string, cv float64) origin.Config {
	return origin.Config{Workers: workers, ServiceTime: dist.ServiceTime{Mean: mean, Distribution: distribution, CV: cv}, Queue: 10_000, Seed: 3}
}

// ramp is a load that goes up to 1.2 times the capacity, and down.
func ramp(o origin.Config) string {
	most := float64(o.Workers) / o.ServiceTime.Mean.Seconds()
	return fmt.Sprintf("%.1f..%.1f@16s,%.1f@8s", 0.1*most, 1.2*most, 0.5*most)
}

func bounded(o origin.Config, queue int) origin.Config {
	o.Queue = queue
	return o
}

var settings = func() []real {
	plain := func(name string, o origin.Config) real { return real{name: name, origin: o, rate: ramp(o)} }
	limited := plain("limit 12 before 10 workers", served(10, 100*time.Millisecond, "exponential", 0))
	limited.limit = "12"
	impatient := plain("callers that leave", served(8, 100*time.Millisecond, "lognormal", 0.5))
	impatient.timeout = 300 * time.Millisecond
	return []real{
		plain("7 workers, lognormal", served(7, 100*time.Millisecond, "lognormal", 0.5)),
		plain("3 workers, exponential", served(3, 60*time.Millisecond, "exponential", 0)),
		plain("20 workers, constant", served(20, 300*time.Millisecond, "constant", 0)),
		plain("10 workers, queue of 20", bounded(served(10, 100*time.Millisecond, "exponential", 0), 20)),
		plain("40 workers, lognormal", served(40, 400*time.Millisecond, "lognormal", 1)),
		plain("one worker", served(1, 20*time.Millisecond, "lognormal", 0.5)),
		plain("15 workers, half-normal", served(15, 150*time.Millisecond, "half-normal", 0.5)),
		plain("5 workers, 250 ms", served(5, 250*time.Millisecond, "normal", 0.2)),
		limited,
		impatient,
	}
}()

func near2(a, b, most float64) bool { return math.Abs(a/b-1) <= most }

// A replay of real runs shows what happened, or says why it cannot.
func TestReplayOfRealRuns(t *testing.T) {
	right := 0
	var mu sync.Mutex
	t.Run("", func(t *testing.T) {
		for _, s := range settings {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				r, err := Run(t.Context(), s.run(t), Options{Seeds: 10, Seed: 1})
				testrig.Must(t, err)
				var text strings.Builder
				testrig.Must(t, r.Table(&text))
				t.Logf("\n%s", &text)
				if !r.Holds {
					return
				}
				got, want := r.Replayed.Median, r.Happened
				mu.Lock()
				defer mu.Unlock()
				if near2(got.Served, want.Served, 0.02) && near2(got.P95, want.P95, 0.1) {
					right++
				}
			})
		}
	})
	if right < 8 {
		t.Errorf("%d of %d replays are right", right, len(settings))
	}
}
