// Package sim is a discrete-event simulator of services under load. Its decisions are
// those of the shipped code, gate.Gate and the algorithms of package limit, in virtual
// time. It is deterministic: the same Scenario, including the seed, gives the same
// Result to the last bit.
//
//	client ──> guard ──> queue ──> workers ──┐
//	                                         └──> guard ──> queue ──> workers ──> …
//	           └───── layer 0 ─────┘              └───── layer 1 ─────┘
//
// A call is a request of a user; with retries it has several attempts. A job is the
// visit of an attempt to one layer. Events of one instant happen in the order in which
// they were scheduled.
//
// Each call has its own random numbers, so that the n-th call of a client brings the same
// work in every variant of a scenario: variants differ by their policies only.
package sim

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

// never is later than all instants of a run.
const never time.Duration = math.MaxInt64

// A Sim is a running Scenario. It is not safe for concurrent use.
type Sim struct {
	scenario Scenario
	now      time.Duration
	agenda   agenda
	layers   []layer
	guards   []*guard // of all layers
	clients  []client
	classes  []string // of calls
	class    map[string]int32
	meter    meter
	record   func(trace.Record)

	shares uint64 // shares of processors so far

	calls pool[call, *call]
	jobs  pool[job, *job]

	seed uint64
	src  *stream
	rng  *rand.Rand // of src
}

// New returns a Sim at the beginning of the scenario, or the *FieldError of its
// Validate. Record, if not nil, is called for each call at its end.
func New(sc Scenario, record func(trace.Record)) (*Sim, error) {
	if err := sc.Validate(); err != nil {
		return nil, err
	}
	if sc.Step == 0 {
		sc.Step = max(sc.Duration/200, 1)
	}
	src := &stream{}
	s := &Sim{agenda: newAgenda(), scenario: sc, seed: sc.Seed, src: src, rng: rand.New(src), record: record}
	s.classes, s.class = sc.classes(), map[string]int32{}
	for i, name := range s.classes {
		s.class[name] = int32(i)
	}
	s.layers = make([]layer, len(sc.Layers))
	for i := range s.layers {
		s.layers[i].init(s, int32(i))
	}
	s.clients = make([]client, len(sc.Clients))
	for i := range s.clients {
		s.clients[i].init(s, int32(i))
	}
	s.meter.init(s)
	return s, nil
}

// Run simulates a scenario to its end, or until ctx ends. Record, if not nil, is called
// for each call at its end, and progress now and then with the time simulated since.
func Run(ctx context.Context, sc Scenario, record func(trace.Record), progress func(time.Duration)) (Result, error) {
	s, err := New(sc, record)
	if err != nil {
		return Result{}, err
	}
	if err := s.Play(ctx, progress); err != nil {
		return Result{}, err
	}
	return s.Result(), nil
}

// Until simulates up to an instant, which is clamped to [now, Duration].
func (s *Sim) Until(at time.Duration) {
	for !s.advance(at) {
	}
}

// mostEvents is the number of events after which advance returns, so that Play sees the end of its context.
const mostEvents = 10_000

// advance simulates up to an instant, or for mostEvents, and reports whether it has come to the instant.
func (s *Sim) advance(at time.Duration) bool {
	at = min(at, s.scenario.Duration)
	for range mostEvents {
		e, ok := s.agenda.pop(min(at, s.meter.next))
		switch {
		case ok:
			s.now = e.at
			s.handle(e)
		case s.meter.next <= at:
			s.now = s.meter.next
			s.sample()
		default:
			s.now = max(s.now, at)
			return true
		}
	}
	return false
}

// Play simulates to the end, or until ctx ends. Progress, if not nil, is called now and
// then with the time simulated since.
func (s *Sim) Play(ctx context.Context, progress func(time.Duration)) error {
	step := s.scenario.Duration/1000 + 1
	for s.now < s.scenario.Duration {
		before := s.now
		for arrived := false; !arrived; arrived = s.advance(before + step) {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if progress != nil {
			progress(s.now - before)
		}
	}
	return nil
}

// Now returns the current instant of the simulation.
func (s *Sim) Now() time.Duration { return s.now }

// Next returns the instant of the next event, or the end if that is before.
func (s *Sim) Next() time.Duration {
	return min(s.agenda.first(), s.meter.next, s.scenario.Duration)
}

func (s *Sim) handle(e event) {
	switch e.kind() {
	case evArrive:
		s.call(e.index)
		s.clients[e.index].schedule(s)
	case evUser:
		s.call(e.index)
	case evRetry:
		if c := s.calls.at(e.index, e.gen); c != nil {
			s.try(c)
		}
	case evPatient:
		s.clients[e.index].expire(s)
	case evTimeout:
		if c := s.calls.at(e.index, e.gen); c != nil {
			s.expire(c)
		}
	case evFinish:
		if j := s.jobs.at(e.index, e.gen); j != nil && j.state != finished { // by a crash
			s.worked(j)
		}
	case evShared:
		if l := &s.layers[e.index]; l.shared.gen == e.gen {
			j := l.shared.jobs.Min()
			l.unshare(s, j)
			s.worked(j)
		}
	case evLate:
		if j := s.jobs.at(e.index, e.gen); j != nil {
			call, parent := j.call, j.parent
			s.abandon(j)
			s.answer(call, parent, result{kind: timedOut})
		}
	case evGate:
		g := s.guards[e.index]
		g.timer = never
		s.drain(g)
	case evTurn:
		s.guards[e.index].other.(*turns).come(e.gen)
	case evStall:
		s.stall(s.guards[e.index])
	case evChange:
		s.change(&s.layers[e.index], e.gen)
	}
}
