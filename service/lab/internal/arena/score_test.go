package arena

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/sim"
)

const ms = time.Millisecond

func TestScore(t *testing.T) {
	row := Row{deadline: 500 * ms, service: 50 * ms, relief: never}
	full := sim.Quantiles{Count: 1000, P99: 250 * ms}
	for _, tt := range []struct {
		what            string
		goodput, oracle float64
		latency         sim.Quantiles
		jain            float64
		refused         []time.Duration
		want            float64
	}{
		{"perfect", 100, 100, full, 1, nil, 1},
		{"better than the oracle", 120, 100, full, 1, nil, 1},
		{"half of the goodput", 50, 100, full, 1, nil, 0.65},
		{"p99 at three quarters of the deadline", 100, 100, sim.Quantiles{Count: 1, P99: 375 * ms}, 1, nil, 0.95},
		{"p99 at the deadline", 100, 100, sim.Quantiles{Count: 1, P99: 500 * ms}, 1, nil, 0.9},
		{"p99 beyond it", 100, 100, sim.Quantiles{Count: 1, P99: 900 * ms}, 1, nil, 0.9},
		{"refused at once", 100, 100, full, 1, []time.Duration{0, 0, 500 * ms}, 1},
		{"refused at half of the deadline", 100, 100, full, 1, []time.Duration{500 * ms, 250 * ms, 0}, 0.975},
		{"timed out", 100, 100, full, 1, []time.Duration{500 * ms}, 0.95},
		{"unfair", 100, 100, full, 0.4, nil, 0.97},
		{"nothing", 0, 100, sim.Quantiles{}, 0, []time.Duration{500 * ms}, 0.1},
		{"an oracle that is blind", 10, 0, full, 1, nil, 0.3},
	} {
		res := sim.Result{Figures: sim.Figures{Goodput: tt.goodput, Latency: tt.latency}, Oracle: tt.oracle, Jain: tt.jain}
		got := row.score(res, tt.refused)
		if math.Abs(got.Score-tt.want) > 1e-9 {
			t.Errorf("%s: %+v: want a score of %v", tt.what, got, tt.want)
		}
	}
	sum := 0.0
	for _, c := range components {
		sum += c.weight
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the weights add up to %v", sum)
	}
}

func TestRecoveryScore(t *testing.T) {
	for _, tt := range []struct {
		took      time.Duration
		recovered bool
		want      float64
	}{
		{0, true, 1}, {5 * time.Second, true, 1}, {12500 * ms, true, 0.5}, {20 * time.Second, true, 0}, {time.Minute, true, 0}, {0, false, 0},
	} {
		if got := recoveryScore(tt.took, tt.recovered, 5*time.Second); got != tt.want {
			t.Errorf("%v, %v: %v: want %v", tt.took, tt.recovered, got, tt.want)
		}
	}
	if r := (Row{service: 2 * time.Second}); r.inTime() != 20*time.Second {
		t.Errorf("%v in time for a service of 2 s: want ten times that", r.inTime())
	}
	if r := (Row{service: 50 * ms}); r.inTime() != 5*time.Second {
		t.Errorf("%v in time for a service of 50 ms: want 5 s", r.inTime())
	}
}

// A series of 30 s: relief comes at 10 s, and goodput as good says.
func TestRecovery(t *testing.T) {
	for _, tt := range []struct {
		what      string
		offered   uint32 // per step of 100 ms
		good      func(at time.Duration) uint32
		took      time.Duration
		recovered bool
	}{
		{"at once", 80, func(time.Duration) uint32 { return 80 }, 0, true},
		{"after three seconds", 80, func(at time.Duration) uint32 {
			if at <= 13*time.Second {
				return 40
			}
			return 80
		}, 2800 * ms, true}, // two steps of 40 leave 0.95 of the window
		{"never", 80, func(time.Duration) uint32 { return 75 }, 18100 * ms, false},
		{"of more than it can do, it does what it can", 150, func(time.Duration) uint32 { return 96 }, 0, true},
		{"of more than it can do, it does less", 150, func(time.Duration) uint32 { return 94 }, 18100 * ms, false},
		{"a window that is too short shows nothing", 80, func(at time.Duration) uint32 {
			if at <= 29*time.Second {
				return 0
			}
			return 80
		}, 18100 * ms, false},
		{"nothing offered", 0, func(time.Duration) uint32 { return 0 }, 0, true},
	} {
		var series []sim.Step
		for at := step; at <= 30*time.Second; at += step {
			series = append(series, sim.Step{At: at, Offered: tt.offered, Good: tt.good(at)})
		}
		took, recovered := recovery(series, 10*time.Second, thousand{})
		if took != tt.took || recovered != tt.recovered {
			t.Errorf("%s: %v, %v: want %v, %v", tt.what, took, recovered, tt.took, tt.recovered)
		}
	}
}

// thousand is a service that can do a thousand calls a second.
type thousand struct{}

func (thousand) Capacity(time.Duration) float64 { return 1000 }
func (thousand) Works(time.Duration) float64    { return 1 }

func TestMean(t *testing.T) {
	a := Cell{Goodput: 1, Latency: 1, Recovery: 1, Reject: 1, Fairness: 1, WorstShare: 1, P99: 100 * ms, RecoveredIn: time.Second, Recovered: true}
	b := Cell{Goodput: 0.5, Recovery: 1, WorstShare: 0.5, P99: 300 * ms, RecoveredIn: 3 * time.Second}
	m := mean("", []Cell{a, b})
	if m.Goodput != 0.75 || m.WorstShare != 0.5 || m.P99 != 200*ms || m.RecoveredIn != 3*time.Second || m.Recovered ||
		math.Abs(m.Score-(0.7*0.75+0.05+0.1+0.025+0.025)) > 1e-9 {
		t.Errorf("%+v", m)
	}
}
