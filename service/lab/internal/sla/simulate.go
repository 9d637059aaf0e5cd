package sla

import (
	"context"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/lab/internal/sim"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Simulate is Run in virtual time, with the same requests and algorithms. Answers take
// no time.
func Simulate(cfg Config) (Result, error) {
	r := Result{Simulated: true, Agreed: cfg.Agreed, Seed: cfg.Seed}
	return r.measureAll(cfg, func(o offer) (a answers, err error) {
		record := func(r trace.Record) { a.client = append(a.client, r) }
		_, err = sim.Run(context.Background(), cfg.scenario(o), record, nil)
		a.server = a.client
		return a, err
	}, func(time.Duration) {})
}

// scenario ends when all requests of an offer have an answer.
func (c Config) scenario(o offer) sim.Scenario {
	arrivals, whole := "even", o.duration
	if c.Poisson {
		arrivals = "poisson"
	}
	upstream := sim.Layer{Name: "upstream", Workers: c.Setting.Concurrency, ServiceTime: c.Setting.Work, Timeout: c.Setting.Timeout, CancelAbandoned: !c.Abandoned}
	if o.slow != (Slowdown{}) {
		upstream.Changes = []sim.Change{{At: o.slow.From, Slowdown: new(2.0)}, {At: o.slow.To, Slowdown: new(1.0)}}
	}
	return sim.Scenario{
		Name: o.row.Name, Duration: whole + time.Duration(o.rate/c.Setting.Rate*float64(whole)) + time.Second, Step: whole, Seed: c.Seed,
		Layers: []sim.Layer{{Name: "service", Guard: o.row.guard()}, upstream},
		Clients: []sim.Client{{
			Name: "users", Rate: strconv.FormatFloat(o.rate, 'g', -1, 64) + "@" + whole.String() + ",0", Arrivals: arrivals,
		}},
	}
}
