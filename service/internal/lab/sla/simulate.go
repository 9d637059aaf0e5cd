package sla

import (
	"strconv"
	"time"

	"github.com/weir-go/weir/service/internal/lab/sim"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// Simulate is Run in virtual time, with the same requests and algorithms. Answers take
// no time.
func Simulate(cfg Config) (Result, error) {
	r := Result{Simulated: true, Seed: cfg.Seed}
	return r.measureAll(cfg, func(o offer) error {
		sc := cfg.scenario(o.row, o.rate, o.duration)
		if o.slow != (Slowdown{}) {
			sc.Layers[1].Changes = []sim.Change{{At: o.slow.From, Slowdown: new(2.0)}, {At: o.slow.To, Slowdown: new(1.0)}}
		}
		s, err := sim.New(sc, func(r trace.Record) {
			o.record(r)
			o.answered(r.Start, r.End-r.Start, r.Status)
		})
		if err != nil {
			return err
		}
		s.Until(sc.Duration)
		return nil
	}, func(time.Duration) {})
}

// scenario offers a rate to a row, and ends when all requests have an answer.
func (c Config) scenario(row Row, rate float64, whole time.Duration) sim.Scenario {
	arrivals := "even"
	if c.Poisson {
		arrivals = "poisson"
	}
	return sim.Scenario{
		Name: row.Name, Duration: whole + time.Duration(rate/Tuned*float64(whole)) + time.Second, Step: whole, Seed: c.Seed,
		Layers: []sim.Layer{
			{Name: "service", Guard: row.guard()},
			{Name: "upstream", Workers: Workers, ServiceTime: serviceTime(), Timeout: Timeout, CancelAbandoned: !c.Abandoned},
		},
		Clients: []sim.Client{{
			Name: "users", Rate: strconv.FormatFloat(rate, 'g', -1, 64) + "@" + whole.String() + ",0", Arrivals: arrivals,
		}},
	}
}
