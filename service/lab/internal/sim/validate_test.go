package sim_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// The error about each bad field has its path.
func TestValidate(t *testing.T) {
	for field, spoil := range map[string]func(*sim.Scenario){
		"duration":                        func(sc *sim.Scenario) { sc.Duration = 0 },
		"warmup":                          func(sc *sim.Scenario) { sc.Warmup = sc.Duration },
		"step":                            func(sc *sim.Scenario) { sc.Step = 1 },
		"layers":                          func(sc *sim.Scenario) { sc.Layers = nil },
		"clients":                         func(sc *sim.Scenario) { sc.Clients = nil },
		"layers[0].workers":               func(sc *sim.Scenario) { sc.Layers[0].Workers = -1 },
		"layers[0].queue":                 func(sc *sim.Scenario) { sc.Layers[0].Queue = ptr(-1) },
		"layers[0].service_time.cv":       func(sc *sim.Scenario) { sc.Layers[0].ServiceTime.CV = 1 },
		"layers[0].failure_rate":          func(sc *sim.Scenario) { sc.Layers[0].FailureRate = 2 },
		"layers[0].pause.every":           func(sc *sim.Scenario) { sc.Layers[0].Pause = sim.Pause{Every: 1, For: 2} },
		"layers[0].guard.limit":           func(sc *sim.Scenario) { sc.Layers[0].Guard = &sim.Guard{} },
		"layers[0].guard.depth":           func(sc *sim.Scenario) { sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "none"}, Depth: -1} },
		"layers[0].guard.rate.per_second": func(sc *sim.Scenario) { sc.Layers[0].Guard = &sim.Guard{Rate: &sim.Rate{}} },
		"layers[0].guard.rate.burst":      func(sc *sim.Scenario) { sc.Layers[0].Guard = &sim.Guard{Rate: &sim.Rate{PerSecond: 1, Burst: -1}} },
		"layers[0].guard.rate.max_wait":   func(sc *sim.Scenario) { sc.Layers[0].Guard = &sim.Guard{Rate: &sim.Rate{PerSecond: 1, Mute: true}} },
		"layers[0].guard.rate.max_wait ":  func(sc *sim.Scenario) { sc.Layers[0].Guard = &sim.Guard{Rate: &sim.Rate{PerSecond: 1, MaxWait: -1}} },
		"layers[0].guard.stalls.every": func(sc *sim.Scenario) {
			sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "none"}, Stalls: sim.Stalls{Every: ms, For: ms}}
		},
		"layers[0].guard.stalls.first": func(sc *sim.Scenario) {
			sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "none"}, Stalls: sim.Stalls{First: -1}}
		},
		"layers[0].guard.stalls.for": func(sc *sim.Scenario) {
			sc.Layers[0].Guard = &sim.Guard{Rate: &sim.Rate{PerSecond: 1}, Stalls: sim.Stalls{For: ms}}
		},
		"layers[0].changes[0].at": func(sc *sim.Scenario) { sc.Layers[0].Changes = []sim.Change{{At: -1}} },
		"clients[0].rate":         func(sc *sim.Scenario) { sc.Clients[0].Rate = "fast" },
		"clients[0].burst.for":    func(sc *sim.Scenario) { sc.Clients[0].Burst.For = 1 },
		"clients[0].timeout":      func(sc *sim.Scenario) { sc.Clients[0].Timeout = -1 },
		"clients[0].mix[0].class": func(sc *sim.Scenario) { sc.Clients[0].Mix = []sim.Share{{Class: "x", Share: 1}} },
		"clients[0].retry.budget": func(sc *sim.Scenario) { sc.Clients[0].Retry.Budget = &adaptive.BudgetConfig{Ratio: 2} },
		"clients[0].think.mean":   func(sc *sim.Scenario) { sc.Clients[0].Think.Mean = -1 },
		"clients[0].think.mean ": func(sc *sim.Scenario) { // a user that calls at once, for ever
			sc.Clients[0].Rate, sc.Clients[0].Users = "", 1
			sc.Layers[0].ServiceTime.Mean = 0
		},
		"duration ":                   func(sc *sim.Scenario) { sc.Duration = 10_001 * time.Hour },
		"layers[0].contention.sigma":  func(sc *sim.Scenario) { sc.Layers[0].Contention.Sigma = math.Inf(1) },
		"layers[0].contention.kappa ": func(sc *sim.Scenario) { sc.Layers[0].Contention.Kappa = math.NaN() },
		"layers[0].failure_rate ":     func(sc *sim.Scenario) { sc.Layers[0].FailureRate, sc.Layers[0].RefuseRate = 0.6, 0.6 },
		"layers[0].changes[0].failure_rate": func(sc *sim.Scenario) {
			sc.Layers[0].RefuseRate, sc.Layers[0].Changes = 0.6, []sim.Change{{FailureRate: ptr(0.6)}}
		},
		"layers[1].name":             func(sc *sim.Scenario) { sc.Layers = append(sc.Layers, sc.Layers[0]) },
		"clients[1].name":            func(sc *sim.Scenario) { sc.Clients = append(sc.Clients, sc.Clients[0]) },
		"clients[0].timeout ":        func(sc *sim.Scenario) { sc.Clients[0].Timeout = math.MaxInt64 },
		"clients[0].units":           func(sc *sim.Scenario) { sc.Clients[0].Units = math.MaxInt },
		"clients[0].retry.attempts":  func(sc *sim.Scenario) { sc.Clients[0].Retry.Attempts = -1 },
		"layers[0].contention.kappa": func(sc *sim.Scenario) { sc.Layers[0].Contention.Kappa = -1 },

		"layers[0].refuse_rate":     func(sc *sim.Scenario) { sc.Layers[0].RefuseRate = -1 },
		"layers[0].hang_rate":       func(sc *sim.Scenario) { sc.Layers[0].HangRate = math.NaN() },
		"layers[0].hang_rate ":      func(sc *sim.Scenario) { sc.Layers[0].HangRate, sc.Layers[0].RefuseRate = 0.6, 0.6 },
		"layers[0].fail_after.mean": func(sc *sim.Scenario) { sc.Layers[0].FailAfter.Mean = -1 },
		"layers[0].refuse_after.cv": func(sc *sim.Scenario) { sc.Layers[0].RefuseAfter.CV = -1 },
		"layers[0].hang_for":        func(sc *sim.Scenario) { sc.Layers[0].HangFor = -1 },
		"layers[0].flap.for":        func(sc *sim.Scenario) { sc.Layers[0].Flap = sim.Flap{Every: 1, For: 1} },
		"layers[0].flap.first":      func(sc *sim.Scenario) { sc.Layers[0].Flap.First = -1 },
		"layers[0].flap.every":      func(sc *sim.Scenario) { sc.Layers[0].Flap.Every = math.MaxInt64 },
		"layers[0].failing_classes": func(sc *sim.Scenario) { sc.Layers[0].FailingClasses = []string{"x"} },
		"layers[0].pods":            func(sc *sim.Scenario) { sc.Layers[0].Pods = -1 },
		"layers[0].bad_pods":        func(sc *sim.Scenario) { sc.Layers[0].BadPods = 1 },
		"layers[0].classes.x.mean": func(sc *sim.Scenario) {
			sc.Layers[0].Classes = map[string]sim.Class{"x": {ServiceTime: dist.ServiceTime{Mean: -1}}}
		},
		"layers[0].changes[0].hang_rate":         func(sc *sim.Scenario) { sc.Layers[0].Changes = []sim.Change{{HangRate: ptr(2.0)}} },
		"layers[0].changes[0].hang_for":          func(sc *sim.Scenario) { sc.Layers[0].Changes = []sim.Change{{HangFor: ptr(-ms)}} },
		"layers[0].changes[0].fail_after.mean":   func(sc *sim.Scenario) { sc.Layers[0].Changes = []sim.Change{{FailAfter: ptr(always(-1))}} },
		"layers[0].changes[0].refuse_after.mean": func(sc *sim.Scenario) { sc.Layers[0].Changes = []sim.Change{{RefuseAfter: ptr(always(-1))}} },
		"layers[0].changes[0].bad_pods":          func(sc *sim.Scenario) { sc.Layers[0].Changes = []sim.Change{{BadPods: ptr(1)}} },

		"layers[0].guard.instances[0].count":       instances(sim.Group{Count: -1}),
		"layers[0].guard.instances[1].count":       instances(sim.Group{Count: 600}, sim.Group{Count: 600}),
		"layers[0].guard.instances[0].weight":      instances(sim.Group{Weight: math.Inf(1)}),
		"layers[0].guard.instances[0].classes":     instances(sim.Group{Classes: []string{"x"}}),
		"layers[0].guard.instances[0].limit":       instances(sim.Group{Limit: &sim.Limit{Name: "x"}}),
		"layers[0].guard.instances[0].epoch":       instances(sim.Group{Epoch: -1}),
		"layers[0].guard.instances[0].epoch_every": instances(sim.Group{EpochEvery: 9_000 * time.Hour, Count: 3}),
		"layers[0].guard.instances[0].skew":        instances(sim.Group{Skew: math.MinInt64}),
		"layers[0].guard.instances[0].skew_spread": instances(sim.Group{SkewSpread: -1}),
		"layers[0].guard.instances[1].start":       instances(sim.Group{}, sim.Group{Start: -1}),
		"layers[0].guard.instances[1].start_every": instances(sim.Group{}, sim.Group{StartEvery: -1}),
		"layers[0].guard.instances[0].start":       instances(sim.Group{Start: 1}),
		"layers[0].guard.instances[1].name":        instances(sim.Group{Name: "x"}, sim.Group{Name: "x"}),
	} {
		sc := scene(ms, 0)
		spoil(&sc)
		_, err := sim.Run(t.Context(), sc, nil, nil)
		if e, ok := err.(*sim.FieldError); !ok || e.Field != strings.TrimSpace(field) {
			t.Errorf("%v: want %s", err, field)
		}
	}
}

func instances(groups ...sim.Group) func(*sim.Scenario) {
	return func(sc *sim.Scenario) {
		sc.Layers[0].Guard = &sim.Guard{Limit: sim.Limit{Name: "none"}, Instances: groups}
	}
}
