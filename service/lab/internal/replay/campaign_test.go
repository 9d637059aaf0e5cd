//go:build system && !race

package replay

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
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
	limit   string // at the service, which records then; empty if the load generator does
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
	service, err := origin.New(s.origin)
	testrig.Must(t, err)
	var handler http.Handler = service
	var rec *recording.Recorder
	if s.limit != "" {
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
	timeout := s.timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	_, err = load.Run(t.Context(), load.Config{
		Target: srv.URL, Profile: profile, Poisson: true, Seed: 5, Timeout: timeout, Duration: s.length(t),
		Record: func(r trace.Record) {
			if rec == nil {
				record := recorded.FromTrace(r)
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

// plain returns a run without more.
func plain(name string, o origin.Config) real { return real{name: name, origin: o, rate: ramp(o)} }

// with changes a run.
func (s real) with(change func(s *real)) real {
	change(&s)
	return s
}

var settings = []real{
	plain("7 workers, lognormal", served(7, 100*time.Millisecond, "lognormal", 0.5)),
	plain("3 workers, exponential", served(3, 60*time.Millisecond, "exponential", 0)),
	plain("20 workers, constant", served(20, 300*time.Millisecond, "constant", 0)),
	plain("10 workers, queue of 20", bounded(served(10, 100*time.Millisecond, "exponential", 0), 20)),
	plain("40 workers, lognormal", served(40, 400*time.Millisecond, "lognormal", 1)),
	plain("one worker", served(1, 40*time.Millisecond, "lognormal", 0.5)),
	plain("15 workers, half-normal", served(15, 150*time.Millisecond, "half-normal", 0.5)),
	plain("5 workers, normal", served(5, 200*time.Millisecond, "normal", 0.2)),
	plain("limit 20 before 10 workers", served(10, 100*time.Millisecond, "exponential", 0)).with(func(s *real) { s.limit = "20" }),
	plain("callers that leave", served(8, 100*time.Millisecond, "lognormal", 0.5)).with(func(s *real) { s.timeout = 300 * time.Millisecond }),
}

// others have a recording that cannot be replayed.
var others = []real{
	plain("a load below the knee", served(20, 200*time.Millisecond, "exponential", 0)).with(func(s *real) { s.rate, s.refused = "10..30@20s", "near the knee: it is at least" }),
	plain("too short", served(5, 200*time.Millisecond, "exponential", 0)).with(func(s *real) { s.rate, s.refused = "10@2s", "Too few observations" }),
}

// limits are settings, by their names, of which a replay with a limit is compared with a run.
var limits = map[string]string{"20 workers, constant": "20", "40 workers, lognormal": "20"}

// lateness returns the share of requests that were sent late: then it is the machine that is measured.
func lateness(files []*recorded.File) float64 {
	late, n := 0, 0
	for _, f := range files {
		for i := range f.Records {
			n++
			if r := &f.Records[i]; r.Outcome.Worked() && recorded.Came(r)-r.Intended > 50*time.Millisecond {
				late++
			}
		}
	}
	return float64(late) / float64(n)
}

// A replay of real runs shows what happened, or says why it cannot. What it says of a limit happens with it.
func TestReplayOfRealRuns(t *testing.T) {
	all := slices.Concat(settings, others)
	for _, s := range settings {
		if limits[s.name] != "" {
			all = append(all, s.with(func(s *real) { s.limit = limits[s.name] }))
		}
	}
	files := make([]*recorded.File, len(all))
	for tries, late := 1, 1.0; late > 0.02; tries++ {
		if tries > 3 {
			t.Fatalf("the machine is too busy: %.0f %% of the requests were sent 50 ms late or more", 100*late)
		}
		var runs sync.WaitGroup
		for i, s := range all {
			runs.Go(func() { files[i] = s.run(t) }) // all in the time of one
		}
		runs.Wait()
		if t.Failed() {
			return
		}
		late = lateness(files)
		t.Logf("%.2f %% of the requests were sent 50 ms late or more", 100*late)
	}
	right, after := 0, files[len(settings)+len(others):]
	for i, s := range all[:len(settings)+len(others)] {
		o := Options{Seeds: 10, Seed: 1}
		if limits[s.name] != "" {
			var l Limit
			testrig.Must(t, l.UnmarshalText([]byte(limits[s.name])))
			o.Policies = []Policy{{Limit: l}}
		}
		r, err := Run(t.Context(), files[i], o)
		testrig.Must(t, err)
		var text strings.Builder
		testrig.Must(t, r.Table(&text))
		t.Logf("%s\n%s", s.name, &text)
		said := strings.Join(r.Reasons, "\n")
		switch {
		case s.refused != "":
			if r.Holds || !strings.Contains(said, s.refused) {
				t.Errorf("%s: %q: want %q", s.name, said, s.refused)
			}
			continue
		case r.Holds && within(r.Replayed.Median.Served, r.Happened.Served, 0.02) && within(r.Replayed.Median.P95, r.Happened.P95, 0.1):
			right++
		case !r.Holds && said == "":
			t.Errorf("%s: no reason", s.name)
		}
		if limits[s.name] == "" {
			continue
		}
		really := newModel(after[0], Options{}).happened.figures()
		after = after[1:]
		if !r.Holds {
			t.Errorf("%s: %q", s.name, said)
			continue
		}
		got := r.Outcomes[0].Median
		t.Logf("limit %s: really %+v", limits[s.name], really)
		if !within(got.Served, really.Served, 0.05) || !within(got.P95, really.P95, 0.15) {
			t.Errorf("%s: limit %s serves %v, P95 %.3f s: really %v, %.3f s", s.name, limits[s.name], got.Served, got.P95, really.Served, really.P95)
		}
	}
	if right < 8 {
		t.Errorf("%d of %d replays are right", right, len(settings))
	}
}
