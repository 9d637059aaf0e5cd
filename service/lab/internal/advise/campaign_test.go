//go:build system && !race

package advise

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

func sharing(l sim.Layer) sim.Layer {
	l.Sharing = true
	return l
}

func contended(l sim.Layer, sigma, kappa float64) sim.Layer {
	l.Contention = sim.Contention{Sigma: sigma, Kappa: kappa}
	return l
}

// pool returns a setting of routes that take some time each, and then share connections.
func pool(name string, connections int, query time.Duration, own map[string]time.Duration, mix []sim.Share) setting {
	api := sim.Layer{Name: "api", Classes: map[string]sim.Class{}}
	mean, total := 0.0, 0.0
	for _, m := range mix {
		d := own[m.Class]
		api.Classes[m.Class] = sim.Class{ServiceTime: dist.ServiceTime{Mean: d, Distribution: "exponential"}}
		mean += d.Seconds() * m.Share
		total += m.Share
	}
	db := workers(connections, query, "exponential", 0)
	db.Name = "database"
	capacity := float64(connections) / query.Seconds()
	return setting{name: name, layers: []sim.Layer{api, db}, mix: mix, capacity: capacity, knee: capacity * (mean/total + query.Seconds())}
}

// stairs lets the load of a setting be that of clients that wait for their answers.
func stairs(s setting) setting {
	s.stairs = true
	return s
}

// The settings that the laws were made with.
var first = func() []setting {
	two := workers(20, 0, "", 0)
	two.ServiceTime = dist.ServiceTime{}
	two.Classes = map[string]sim.Class{
		"quick": {ServiceTime: dist.ServiceTime{Mean: 10 * time.Millisecond, Distribution: "exponential"}},
		"slow":  {ServiceTime: dist.ServiceTime{Mean: 100 * time.Millisecond, Distribution: "lognormal", CV: 0.5}},
	}
	return []setting{
		one("3 workers, 2 ms, exponential", workers(3, 2*time.Millisecond, "exponential", 0)),
		one("7 workers, 1 s, constant", workers(7, time.Second, "constant", 0)),
		one("400 workers, 2 s, lognormal", workers(400, 2*time.Second, "lognormal", 0.5)),
		one("50 workers, 20 ms, lognormal", workers(50, 20*time.Millisecond, "lognormal", 1)),
		one("16 processors, 50 ms, exponential", sharing(workers(16, 50*time.Millisecond, "exponential", 0))),
		one("4 processors, 5 ms, lognormal", sharing(workers(4, 5*time.Millisecond, "lognormal", 1))),
		stairs(one("contention and crosstalk, 20 ms", contended(workers(200, 20*time.Millisecond, "exponential", 0), 0.02, 0.0005))),
		stairs(one("30 workers with contention, 100 ms", contended(workers(30, 100*time.Millisecond, "exponential", 0), 0.02, 0))),
		{name: "two classes, 20 workers", layers: []sim.Layer{two}, mix: []sim.Share{{Class: "quick", Share: 3}, {Class: "slow", Share: 1}}, knee: 20, capacity: 20 / (0.75*0.010 + 0.25*0.100)},
		pool("a pool of 10 behind two routes", 10, 20*time.Millisecond, map[string]time.Duration{"a": 20 * time.Millisecond, "b": 60 * time.Millisecond}, []sim.Share{{Class: "a", Share: 1}, {Class: "b", Share: 1}}),
	}
}()

// Settings that were written when the laws were done, and not looked at before.
var second = func() []setting {
	two := sim.Layer{Name: "service", Workers: 6, Classes: map[string]sim.Class{
		"quick": {ServiceTime: dist.ServiceTime{Mean: 4 * time.Millisecond, Distribution: "exponential"}},
		"slow":  {ServiceTime: dist.ServiceTime{Mean: 40 * time.Millisecond, Distribution: "exponential"}},
	}}
	return []setting{
		one("12 workers, 5 ms, exponential", workers(12, 5*time.Millisecond, "exponential", 0)),
		one("100 workers, 100 ms, dispersed", workers(100, 100*time.Millisecond, "lognormal", 2)),
		one("5 workers, 300 ms, exponential", workers(5, 300*time.Millisecond, "exponential", 0)),
		one("25 processors, 8 ms, constant", sharing(workers(25, 8*time.Millisecond, "constant", 0))),
		stairs(one("crosstalk, 50 ms", contended(workers(300, 50*time.Millisecond, "exponential", 0), 0.01, 0.0002))),
		one("60 workers with contention, 10 ms", contended(workers(60, 10*time.Millisecond, "lognormal", 0.5), 0.005, 0)),
		{name: "two classes, 6 workers", layers: []sim.Layer{two}, mix: []sim.Share{{Class: "quick", Share: 9}, {Class: "slow", Share: 1}}, knee: 6, capacity: 6 / (0.9*0.004 + 0.1*0.040)},
		pool("a pool of 30 behind three routes", 30, 5*time.Millisecond,
			map[string]time.Duration{"a": 5 * time.Millisecond, "b": 15 * time.Millisecond, "c": 100 * time.Millisecond},
			[]sim.Share{{Class: "a", Share: 5}, {Class: "b", Share: 3}, {Class: "c", Share: 1}}),
		one("3 workers, 1.5 s, lognormal", workers(3, 1500*time.Millisecond, "lognormal", 0.3)),
		one("250 workers, 200 ms, half-normal", workers(250, 200*time.Millisecond, "half-normal", 0.4)),
	}
}()

// found counts the settings of which the knee is within 10 %, and those of which it is in the interval.
func found(t *testing.T, settings []setting, share float64, seed uint64) (right, covered int) {
	for _, s := range settings {
		a := of(t, s.play(t, share, seed), Options{Seed: 1})
		k := a.Knee
		if k.Value == nil {
			t.Logf("%s: at least %.1f: want %.1f", s.name, *k.Low, s.knee)
			continue
		}
		off := *k.Value/s.knee - 1
		t.Logf("%-36s knee %.1f: %.1f (%+.0f %%), from %.1f to %.1f, %s, %d parts", s.name, s.knee, *k.Value, 100*off, *k.Low, *k.High, a.Law, len(a.History))
		if off < 0.1 && off > -0.1 {
			right++
		}
		if *k.Low <= s.knee && s.knee <= *k.High {
			covered++
		}
	}
	return right, covered
}

func TestTheKneeIsFound(t *testing.T) {
	if right, covered := found(t, first, 1.2, 1); right < 10 || covered < 9 {
		t.Errorf("%d of 10 within 10 %%, %d in the interval", right, covered)
	}
}

func TestTheKneeOfOtherSettingsIsFound(t *testing.T) {
	if right, covered := found(t, second, 1.1, 7); right < 8 || covered < 8 {
		t.Errorf("%d of 10 within 10 %%, %d in the interval", right, covered)
	}
}

// With a load far below the knee, the advice says so, and what the knee is at least.
func TestALoadBelowTheKneeIsTold(t *testing.T) {
	for i, settings := range [][]setting{first, second} {
		for _, s := range settings {
			a := of(t, s.play(t, 0.4, uint64(i+2)), Options{Seed: 1})
			if a.Knee.Value != nil || *a.Knee.Low > s.knee || *a.Knee.Low < 0.05*s.knee || len(a.Doubts) == 0 || a.Recommended != nil {
				t.Errorf("%s: knee %.1f: %+v", s.name, s.knee, a.Knee)
			}
			t.Logf("%-36s knee %.1f: at least %.1f", s.name, s.knee, *a.Knee.Low)
		}
	}
}
