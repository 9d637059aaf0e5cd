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
	if err := cfg.Validate(); err != nil {
		return r, err
	}
	for _, rate := range cfg.Rates {
		whole, warmup := cfg.point(rate)
		for _, row := range cfg.rows() {
			t := newTally(warmup, whole)
			err := simulate(cfg.scenario(row, rate, whole), func(r trace.Record) {
				t.add(r)
				t.answered(r.Start, r.End-r.Start, r.Status)
			})
			if err != nil {
				return r, err
			}
			r.Points = append(r.Points, t.point(row.Name, rate))
		}
	}
	for _, row := range cfg.slowRows() {
		d := cfg.newDiary(row.Name)
		sc := cfg.scenario(row, AgreedRate, 3*cfg.Phase)
		slow, twice, once := cfg.slowdown(), 2.0, 1.0
		sc.Layers[1].Changes = []sim.Change{{At: slow.From, Slowdown: &twice}, {At: slow.To, Slowdown: &once}}
		if err := simulate(sc, d.add); err != nil {
			return r, err
		}
		r.Slow = append(r.Slow, d.course)
	}
	r.compare()
	return r, nil
}

func simulate(sc sim.Scenario, record func(trace.Record)) error {
	s, err := sim.New(sc, record)
	if err != nil {
		return err
	}
	s.Until(sc.Duration)
	return nil
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
