package sim_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A doorman is a Limiter with a fixed limit and queue. It answers waiting requests when
// the test tells it to.
type doorman struct {
	limit, queue, inflight int
	waiting                []*guest
	late                   int // answers to requests that have left
}

type guest struct {
	of     *doorman
	answer func(weir.Reason)
	gone   bool
}

func (d *doorman) Acquire(_ gate.Request, answer func(weir.Reason)) (sim.Pass, gate.Verdict, weir.Reason) {
	g := &guest{of: d, answer: answer}
	switch {
	case d.inflight < d.limit && len(d.waiting) == 0:
		d.inflight++
		return g, gate.Admit, 0
	case len(d.waiting) == d.queue:
		return g, gate.Refuse, weir.QueueFull
	}
	d.waiting = append(d.waiting, g)
	return g, gate.Wait, 0
}

func (d *doorman) Stats() gate.Stats {
	return gate.Stats{Limit: d.limit, Inflight: d.inflight, Waiting: len(d.waiting)}
}

func (g *guest) Cancel() {
	g.gone = true
	g.of.waiting = slices.DeleteFunc(g.of.waiting, func(w *guest) bool { return w == g })
}

func (g *guest) Release(weir.Outcome) { g.of.inflight-- }

func (d *doorman) settle() {
	for d.inflight < d.limit && len(d.waiting) > 0 {
		g := d.waiting[0]
		d.waiting = d.waiting[1:]
		if g.gone {
			d.late++
		}
		d.inflight++
		g.answer(0)
	}
}

// A Limiter that decides like a gate has the same effect, call by call.
func TestLimiter(t *testing.T) {
	sc := sim.Scenario{
		Name: "limiter", Duration: 20 * time.Second, Seed: 3,
		Layers: []sim.Layer{
			{Name: "proxy", ServiceTime: dist.ServiceTime{Mean: ms, Distribution: "exponential"},
				Guard: &sim.Guard{Limit: sim.Limit{Name: "fixed", N: 12}, Queue: 8, Blind: true}},
			{Name: "service", Workers: 10, Queue: ptr(1), ServiceTime: dist.ServiceTime{Mean: 20 * ms, Distribution: "exponential"}, FailureRate: 0.1},
		},
		Clients: []sim.Client{{Name: "users", Rate: "300@5s,800@5s,300", Timeout: 50 * ms, Retry: sim.Retry{Attempts: 2, Backoff: 5 * ms}}},
	}
	want := run(t, sc)

	d := &doorman{limit: 12, queue: 8}
	sc.Layers = slices.Clone(sc.Layers)
	sc.Layers[0].Guard = &sim.Guard{Other: func() sim.Limiter { return d }}
	s, err := sim.New(sc, nil)
	if err != nil {
		t.Fatal(err)
	}
	for s.Now() < sc.Duration {
		next := s.Next()
		if next < s.Now() {
			t.Fatalf("next is %v, at %v", next, s.Now())
		}
		s.Until(next)
		d.settle()
	}
	got := s.Result()
	if got.Totals.TimedOut == 0 || got.Totals.Rejected == 0 || got.Totals.Failed == 0 || d.late > 0 {
		t.Errorf("%+v, %d answers to those who had left: want all kinds of calls, and none", got.Totals, d.late)
	}
	if st := got.Layers[0].Guard; st == nil || st.Limit != 12 {
		t.Errorf("%+v: want the doorman's", st)
	}
	got.Layers[0].Guard, want.Layers[0].Guard = nil, nil // it does not count
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a doorman: %+v\na gate: %+v", got, want)
	}
}
