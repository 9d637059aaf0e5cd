package sim_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

const ms = time.Millisecond

func run(t testing.TB, sc sim.Scenario) sim.Result {
	t.Helper()
	r, err := sim.Run(t.Context(), sc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// within fails unless got is want, to within a share of it.
func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)) {
		t.Errorf("%s: %.5g: want %.5g ± %.2g %%", what, got, want, 100*share)
	}
}

// station is an open loop of 400,000 calls, in front of c workers with a
// mean of 1 ms.
func station(c int, load float64, distribution string, cv float64) sim.Scenario {
	return sim.Scenario{
		Name: "station", Duration: time.Duration(4e5 / (load * float64(max(c, 1))) * float64(ms)), Warmup: time.Second, Seed: 1,
		Layers: []sim.Layer{{Name: "service", Workers: c,
			ServiceTime: dist.ServiceTime{Mean: ms, Distribution: distribution, CV: cv}}},
		Clients: []sim.Client{{Name: "users", Rate: rate(load * float64(c) * 1000)}},
	}
}

// Mean times in the system, in units of the mean service time, with exact values from
// queueing theory.
func TestTheory(t *testing.T) {
	for _, tt := range []struct {
		rule         string
		workers      int
		load         float64
		distribution string
		cv           float64
		sharing      bool
		want         float64
	}{
		{"M/M/1: 1/(1-ρ)", 1, 0.5, "exponential", 0, false, 2},
		{"M/M/1 at 0.8", 1, 0.8, "exponential", 0, false, 5},
		{"M/D/1: 1 + ρ/(2(1-ρ))", 1, 0.8, "constant", 0, false, 3},
		{"M/G/1 (Pollaczek-Khinchine): 1 + ρ/(1-ρ)·(1+cv²)/2", 1, 0.7, "lognormal", 1.5, false, 1 + 0.7/0.3*(1+1.5*1.5)/2},
		{"M/M/4 (Erlang C)", 4, 0.8, "exponential", 0, false, 1 + erlangC(4, 3.2)/(4-3.2)},
		{"M/M/20 (Erlang C)", 20, 0.9, "exponential", 0, false, 1 + erlangC(20, 18)/(20-18)},
		{"M/M/∞", 0, 5, "exponential", 0, false, 1},
		{"M/M/1 shared: 1/(1-ρ)", 1, 0.7, "exponential", 0, true, 1 / 0.3},
		{"M/G/1 shared is insensitive to the distribution", 1, 0.7, "lognormal", 1.5, true, 1 / 0.3},
		{"M/M/4 shared is M/M/4", 4, 0.8, "exponential", 0, true, 1 + erlangC(4, 3.2)/(4-3.2)},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			sc := station(tt.workers, tt.load, tt.distribution, tt.cv)
			if sc.Layers[0].Sharing = tt.sharing; tt.workers == 0 {
				sc.Clients[0].Rate = rate(tt.load * 1000)
			}
			r := run(t, sc)
			within(t, "mean time in the system", r.Latency.Mean.Seconds()*1000, tt.want, 0.04)
			l := r.Layers[0]
			within(t, "Little's law: N = X·R", l.Inside, l.Throughput*l.Sojourn.Seconds(), 0.001)
			within(t, "busy workers: the load", l.Busy, r.Offered/1000, busyTolerance(tt.sharing))
		})
	}
}

// Under processor sharing, every job works all the time.
func busyTolerance(sharing bool) float64 {
	if sharing {
		return math.Inf(1)
	}
	return 0.02
}

// erlangC returns the probability that an arrival waits, for c workers and a load of a
// erlangs.
func erlangC(c int, a float64) float64 {
	b := 1.0 // Erlang B, by its recursion
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	rho := a / float64(c)
	return b / (1 - rho + rho*b)
}

// M/M/1/K: the share of arrivals that find K inside and are turned away is
// (1-ρ)ρᴷ/(1-ρᴷ⁺¹), whether the station or its guard turns them away.
func TestLoss(t *testing.T) {
	const k, rho = 5, 0.9
	want := (1 - rho) * math.Pow(rho, k) / (1 - math.Pow(rho, k+1))
	for name, change := range map[string]func(*sim.Layer){
		"overloaded": func(l *sim.Layer) { n := k - 1; l.Queue = &n },
		"over_limit": func(l *sim.Layer) { l.Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: k}} },
		"queue_full": func(l *sim.Layer) { l.Guard = &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 1}, Queue: k - 1} },
	} {
		sc := station(1, rho, "exponential", 0)
		change(&sc.Layers[0])
		r := run(t, sc)
		n := float64(r.Outcomes["ok"] + r.Outcomes[name])
		within(t, name, float64(r.Outcomes[name])/n, want, 0.03)
	}
}

// A closed loop: N = X·(R+Z), and at most Workers/S.
func TestClosedLoop(t *testing.T) {
	sc := station(10, 1, "exponential", 0)
	sc.Clients[0] = sim.Client{Name: "users", Users: 50, Think: dist.ServiceTime{Mean: 10 * ms, Distribution: "exponential"}}
	sc.Duration = 20 * time.Second
	r := run(t, sc)
	within(t, "N = X·(R+Z)", 50, r.Goodput*(r.Latency.Mean+10*ms).Seconds(), 0.01)
	sc.Clients[0].Think = dist.ServiceTime{}
	r = run(t, sc)
	within(t, "a full station: workers / service time", r.Goodput, 10_000, 0.01)
	within(t, "R = N/X", r.Latency.Mean.Seconds(), 50.0/10_000, 0.01)
}

// Two stations in tandem are two M/M/1 (Burke's theorem) if the first does not
// hold its worker; here it has as many as come.
func TestTandem(t *testing.T) {
	sc := station(1, 0.8, "exponential", 0)
	first := sc.Layers[0]
	first.Name, first.Workers = "first", 0
	sc.Layers = []sim.Layer{first, sc.Layers[0]}
	r := run(t, sc)
	within(t, "M/M/∞ and then M/M/1", r.Latency.Mean.Seconds()*1000, 1+5, 0.03)
	within(t, "time below the first layer", r.Layers[1].Sojourn.Seconds()*1000, 5, 0.03)
}

// The universal scalability law: X(n) = n/(S·(1+σ(n-1)+κn(n-1))).
func TestContention(t *testing.T) {
	for _, n := range []int{1, 4, 16, 64} {
		sc := station(1, 1, "constant", 0)
		sc.Duration = 3 * time.Second
		sc.Layers[0].Workers = 100
		sc.Layers[0].Contention = sim.Contention{Sigma: 0.05, Kappa: 0.001}
		sc.Clients[0] = sim.Client{Name: "users", Users: n}
		f := float64(n)
		within(t, "throughput", run(t, sc).Goodput, 1000*f/(1+0.05*(f-1)+0.001*f*(f-1)), 0.01)
	}
}

// A pause takes its share of the capacity.
func TestPauseCapacity(t *testing.T) {
	for _, sharing := range []bool{false, true} {
		sc := station(4, 1, "exponential", 0)
		sc.Duration = 30 * time.Second
		sc.Layers[0].Sharing = sharing
		sc.Layers[0].Pause = sim.Pause{First: 3 * ms, Every: 100 * ms, For: 25 * ms}
		sc.Clients[0] = sim.Client{Name: "users", Users: 40}
		within(t, "throughput", run(t, sc).Goodput, 3000, 0.01)
		if got := sc.Forecast().Capacity(0); got != 3000 {
			t.Errorf("capacity %v: want 3000", got)
		}
	}
}

// One tenant with a hundred times the load of the others leaves each of them its fair
// share, under each discipline: only requests of the tenant that fills the queue leave it.
func TestFairShareUnderDefaults(t *testing.T) {
	for _, d := range []gate.Discipline{gate.FIFO, gate.CoDel, gate.AdaptiveLIFO} {
		t.Run(string(d), func(t *testing.T) {
			r := run(t, sim.Scenario{
				Name: "tenants", Duration: time.Minute, Warmup: 5 * time.Second, Seed: 1,
				Layers: []sim.Layer{{Name: "service", Workers: 10, ServiceTime: dist.ServiceTime{Mean: 50 * time.Millisecond, Distribution: "exponential"},
					Guard: &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 10}, Queue: 1000, MaxWait: 500 * time.Millisecond,
						Discipline: inflight.Discipline(d), Target: 50 * time.Millisecond, Interval: time.Second, FairQueues: 256}}},
				Clients: []sim.Client{{Name: "light", Rate: "150", Tenants: 3}, {Name: "heavy", Rate: "5000"}},
			})
			for _, tenant := range r.Tenants {
				if tenant.FairShare < 0.95 {
					t.Errorf("%s: %.3f of its fair share", tenant.Name, tenant.FairShare)
				}
			}
		})
	}
}

// A partition that offers less than its guarantee is served completely, even if others
// fill the queue.
func TestGuaranteedPartition(t *testing.T) {
	r := run(t, sim.Scenario{
		Name: "partitions", Duration: time.Minute, Warmup: 5 * time.Second, Seed: 1,
		Layers: []sim.Layer{{Name: "service", Workers: 20, ServiceTime: dist.ServiceTime{Mean: 50 * time.Millisecond, Distribution: "exponential"},
			Guard: &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 20}, Queue: 200, Partitions: []float64{0.5, 0.25}}}},
		Clients: []sim.Client{
			{Name: "a", Rate: "150", Partition: 1, Timeout: time.Second}, // of 200 guaranteed
			{Name: "b", Rate: "2000", Partition: 2, Timeout: time.Second},
		},
	})
	if a := r.Clients[0]; a.Goodput < 0.99*a.Offered {
		t.Errorf("a has %.1f of the %.1f that it offers: want all", a.Goodput, a.Offered)
	}
	if b := r.Clients[1]; b.Goodput < 200 {
		t.Errorf("b has %.1f: want what a leaves", b.Goodput)
	}
}

// Callers that wait for a lognormal time are served if that is longer than the work: of work that takes
// the mean, those beyond it, which are Φ(−σ/2) with σ² = ln(1 + CV²).
func TestTimeoutCV(t *testing.T) {
	for cv, share := range map[float64]float64{0: 1, 0.5: 0.4066, 2: 0.2629} {
		sc := sim.Scenario{
			Name: "patience", Duration: 1000 * time.Second, Warmup: 100 * time.Second, Seed: 1,
			Layers:  []sim.Layer{{Name: "service", ServiceTime: dist.ServiceTime{Mean: time.Second - ms}}},
			Clients: []sim.Client{{Name: "users", Rate: "50", Timeout: time.Second, TimeoutCV: cv}},
		}
		r := run(t, sc)
		within(t, fmt.Sprintf("goodput with a cv of %v", cv), r.Goodput, 50*share, 0.02)
	}
	sc := sim.Scenario{Name: "patience", Duration: time.Second, Layers: []sim.Layer{{Name: "service", Workers: 1, ServiceTime: dist.ServiceTime{Mean: ms}}},
		Clients: []sim.Client{{Name: "users", Rate: "50", TimeoutCV: 1}}}
	if err := sc.Validate(); err == nil || !strings.Contains(err.Error(), "timeout_cv") {
		t.Errorf("timeout_cv without a timeout: %v: want an error", err)
	}
}

// Requests that call layers by name have the throughput that the busiest of these allows, and take the time
// of all their calls.
func TestCallsOf(t *testing.T) {
	constant := func(d time.Duration) dist.ServiceTime { return dist.ServiceTime{Mean: d} }
	sc := sim.Scenario{
		Name: "pools", Duration: 100 * time.Second, Warmup: 10 * time.Second, Seed: 1,
		Layers: []sim.Layer{
			{Name: "handlers", Classes: map[string]sim.Class{
				"report": {ServiceTime: constant(ms), CallsOf: []string{"search", "orders", "search"}},
				"order":  {ServiceTime: constant(ms), CallsOf: []string{"orders"}},
				"static": {ServiceTime: constant(ms)},
			}},
			{Name: "orders", Workers: 4, ServiceTime: constant(40 * ms)},
			{Name: "search", Workers: 2, ServiceTime: constant(10 * ms)},
		},
		Clients: []sim.Client{{Name: "users", Rate: "30", Arrivals: "even", Mix: []sim.Share{{"report", 1}, {"order", 1}}}},
	}
	r := run(t, sc)
	within(t, "goodput", r.Goodput, 30, 0.01)
	for _, l := range r.Layers { // one order of each call, and two searches of half of them
		within(t, "visits of "+l.Name, float64(l.Arrived)/90, 30, 0.05)
	}
	for _, c := range r.Classes {
		want := map[string]time.Duration{"report": 61 * ms, "order": 41 * ms}[c.Name]
		within(t, "time of "+c.Name, c.Latency.P50.Seconds(), want.Seconds(), 0.2)
	}
	// Half of the calls hold a worker of search for 20 ms, and all one of orders for 40 ms.
	within(t, "capacity", sc.Forecast().Capacity(0), 100, 1e-9)
	sc.Layers[2].Workers = 1
	sc.Layers[2].ServiceTime = constant(50 * ms)
	within(t, "capacity of slow searches", sc.Forecast().Capacity(0), 20, 1e-9)

	for _, bad := range [][]string{{"handlers"}, {"nowhere"}, {""}} {
		sc.Layers[0].Classes["report"] = sim.Class{CallsOf: bad}
		if err := sc.Validate(); err == nil || !strings.Contains(err.Error(), "calls_of") {
			t.Errorf("calls of %q: %v: want an error", bad, err)
		}
	}
}
