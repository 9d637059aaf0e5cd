package sim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

func rate(rps float64) string { return strconv.FormatFloat(rps, 'g', -1, 64) }

func ptr[T any](v T) *T { return &v }

// everything is a scenario that uses every feature.
func everything(seed uint64) sim.Scenario {
	slow := dist.ServiceTime{Mean: 40 * ms, Distribution: "lognormal", CV: 1}
	return sim.Scenario{
		Name: "everything", Duration: 20 * time.Second, Warmup: 2 * time.Second, Seed: seed,
		Layers: []sim.Layer{
			{Name: "proxy", ServiceTime: dist.ServiceTime{Mean: ms / 10},
				Guard: &sim.Guard{Limit: sim.Limit{Name: "aimd"}, Queue: 20, MaxWait: 50 * ms}, Attempts: 2},
			{Name: "service", Workers: 20, Queue: ptr(30), ServiceTime: dist.ServiceTime{Mean: 2 * ms, Distribution: "normal", CV: 0.2},
				Guard: &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 25}, Library: true, Stalls: sim.Stalls{Every: 700 * ms, For: 30 * ms, Random: true}},
				Calls: 2, Timeout: 80 * ms, CancelAbandoned: true, Pause: sim.Pause{Every: time.Second, For: 50 * ms}},
			{Name: "database", Workers: 8, Queue: ptr(10), ServiceTime: dist.ServiceTime{Mean: 4 * ms, Distribution: "exponential"},
				Classes: map[string]sim.Class{"report": {ServiceTime: slow}}, Contention: sim.Contention{Sigma: 0.02},
				FailureRate: 0.01, RefuseRate: 0.01, Sharing: true,
				Changes: []sim.Change{{At: 5 * time.Second, Slowdown: ptr(3.0)}, {At: 10 * time.Second, Slowdown: ptr(1.0), Workers: ptr(4)}}},
		},
		Clients: []sim.Client{
			{Name: "app", Rate: "100..600@10s", Timeout: 100 * ms, Deadline: 300 * ms, Tenants: 5,
				Retry: sim.Retry{Attempts: 3, Backoff: 10 * ms, MaxBackoff: 50 * ms, Budget: &adaptive.BudgetConfig{Ratio: 0.1}},
				Mix:   []sim.Share{{Class: "", Share: 0.95}, {Class: "report", Share: 0.05}}},
			{Name: "batch", Users: 10, Think: dist.ServiceTime{Mean: 20 * ms, Distribution: "exponential"}, Timeout: time.Second, Priority: -2},
			{Name: "bursts", Rate: "50", Arrivals: "even", Burst: sim.Burst{Every: time.Second, For: 100 * ms}, Units: 2},
		},
	}
}

// traced runs a scenario and returns its trace and its result as bytes.
func traced(t *testing.T, sc sim.Scenario) (records, result []byte) {
	t.Helper()
	var buf bytes.Buffer
	w := trace.NewWriter(&buf)
	s, err := sim.New(sc, func(r trace.Record) {
		testrig.Must(t, w.Write(r))
	})
	testrig.Must(t, err)
	s.Until(sc.Duration)
	testrig.Must(t, w.Flush())
	result, err = json.Marshal(s.Result())
	testrig.Must(t, err)
	return buf.Bytes(), result
}

func TestSameSeedSameBytes(t *testing.T) {
	records, result := traced(t, everything(1))
	again, resultAgain := traced(t, everything(1))
	if !bytes.Equal(records, again) || !bytes.Equal(result, resultAgain) {
		t.Error("the same seed gives other bytes")
	}
	if other, _ := traced(t, everything(2)); bytes.Equal(records, other) {
		t.Error("another seed gives the same trace")
	}
	if n := bytes.Count(records, []byte("\n")); n < 5000 {
		t.Errorf("%d records: want thousands", n)
	}
}

// Small steps give the same result as one.
func TestUntilInSteps(t *testing.T) {
	sc := everything(3)
	whole := run(t, sc)
	s, err := sim.New(sc, nil)
	testrig.Must(t, err)
	for at := time.Duration(0); at < sc.Duration; at += 7 * ms {
		s.Until(at)
	}
	s.Until(sc.Duration + time.Hour)
	a, _ := json.Marshal(whole)
	b, _ := json.Marshal(s.Result())
	if !bytes.Equal(a, b) {
		t.Error("a run in steps is another one")
	}
}

// endsAfter is a context that ends when it has been asked some times.
type endsAfter struct {
	context.Context
	times int
}

func (c *endsAfter) Err() error {
	if c.times--; c.times < 0 {
		return context.Canceled
	}
	return nil
}

// A run sees the end of its context after a bounded number of events, however dense they are.
func TestPlayIsInterrupted(t *testing.T) {
	sc := overload(sim.Limit{Name: "fixed", N: 20})
	sc.Clients[0].Rate = rate(1e9)
	s, err := sim.New(sc, nil)
	testrig.Must(t, err)
	if err := s.Play(&endsAfter{t.Context(), 3}, nil); err != context.Canceled || s.Now() == 0 || s.Now() > ms {
		t.Errorf("%v at %v: want the end of the context within a millisecond of 1,000,000 requests", err, s.Now())
	}
}

// A round of a closed loop takes time, though all its work takes none.
func TestClosedLoopGoesOn(t *testing.T) {
	sc := scene(ms, 0)
	sc.Duration, sc.Clients[0].Rate, sc.Clients[0].Users = 1000, "", 1
	sc.Layers[0].Changes = []sim.Change{{Slowdown: ptr(1e-300)}}
	if r := run(t, sc); r.Totals.Calls != 1000 && r.Totals.Calls != 1001 {
		t.Errorf("%d calls in 1000 ns: want one in each", r.Totals.Calls)
	}
}

// Every call, and every job in every layer, is somewhere.
func TestConservation(t *testing.T) {
	seen := map[string]uint64{}
	for seed := range uint64(20) {
		sc := everything(seed)
		sc.Warmup = 0
		for i := range sc.Layers {
			sc.Layers[i].CancelAbandoned = seed>>i&1 == 1
		}
		r := run(t, sc)
		if a := r.Totals; a.Calls != a.Good+a.Failed+a.Overloaded+a.TimedOut+a.Rejected+a.Open {
			t.Errorf("seed %d: calls do not add up: %+v", seed, a)
		}
		inside := uint64(0)
		for _, l := range r.Layers {
			left := uint64(0)
			for _, n := range l.Outcomes {
				left += n
			}
			inside += l.Arrived - left
			if g := l.Guard; g != nil && l.Arrived != g.Admitted+g.OverLimit+g.QueueFull+g.Overdue+g.TooLate+g.Evicted+g.Cancelled+uint64(g.Waiting) {
				t.Errorf("seed %d, %s: %d arrived, and the guard counts %+v", seed, l.Name, l.Arrived, *g)
			}
		}
		if inside != r.Totals.Inside {
			t.Errorf("seed %d: %d inside by the layers' counts: want %d", seed, inside, r.Totals.Inside)
		}
		seen["good"] += r.Totals.Good
		seen["failed"] += r.Totals.Failed
		seen["overloaded"] += r.Totals.Overloaded
		seen["timed out"] += r.Totals.TimedOut
		seen["rejected"] += r.Totals.Rejected
	}
	for kind, n := range seen {
		if n == 0 {
			t.Errorf("nothing %s in any run: the test does not test it", kind)
		}
	}
}

// At the end, when every call has an answer, no job is left.
func TestNothingLeaks(t *testing.T) {
	for seed := range uint64(20) {
		sc := everything(seed)
		sc.Duration = 60 * time.Second
		sc.Clients = []sim.Client{sc.Clients[0]}
		sc.Clients[0].Rate = "500@20s,0"
		r := run(t, sc)
		if r.Totals.Open != 0 || r.Totals.Inside != 0 {
			t.Errorf("seed %d: %d calls open, %d jobs inside: want none", seed, r.Totals.Open, r.Totals.Inside)
		}
		for i, p := range r.Series[len(r.Series)-1].Layers {
			if p.Inflight != 0 || p.Waiting != 0 || p.Busy != 0 || p.Queued != 0 {
				t.Errorf("seed %d: layer %d: %+v: want nothing", seed, i, p)
			}
		}
	}
}
