// Package fleet is a discrete-event simulator of leaves that share limits. In the policy
// leaf, the shipped code decides, in virtual time: internal/leaf in the leaves, and
// server.Server in the upstream. Other policies are for comparison. It is
// deterministic: the same Scenario, including the seed, gives the same Result to the last
// bit.
//
//	requests ──> leaf ──┐ exchanges: delayed, lost, cut off
//	requests ──> leaf ──┼──> upstream
//	requests ──> leaf ──┘
//
// The leaves start within the first second. Requests of a leaf are made and decided in its own order. Leaves are brought up to the
// same instant each slot of 10 ms, so an exchange that a request causes at once can begin up
// to 10 ms late.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// slot is the resolution of measurements.
const slot = 10 * time.Millisecond

// A Sim is a running Scenario. It is not safe for concurrent use.
type Sim struct {
	sc     Scenario
	keys   []limited
	now    time.Duration
	next   time.Duration // the end of the slot
	agenda agenda

	policy policy
	centre centre // nil while the upstream is down
	downs  int    // faults that keep the upstream down
	loads  []*load
	leaves []leafState
	net    *rand.Rand
	rnd    *rand.Rand // of the order
	order  []int      // of the leaves in a slot
	meter  meter
}

// A leafState is a process that decides.
type leafState struct {
	node   node // nil while the leaf does not run
	source source
	cuts   int // partitions that it is in
	downs  int // faults that keep it down
	starts uint32
	due    time.Duration
	dueGen uint32
	flight *flight // the exchange that is on its way
}

// A flight is an exchange on its way.
type flight struct {
	leaf            int32
	oneWay          bool
	message, answer any
}

// New returns a Sim at the beginning of the scenario, or the *FieldError of its Validate.
func New(sc Scenario) (*Sim, error) {
	if err := sc.Validate(); err != nil {
		return nil, err
	}
	sc.Fleet.Policy = cmp.Or(sc.Fleet.Policy, "leaf")
	sc.Fleet.TTL = cmp.Or(sc.Fleet.TTL, 10*time.Second)
	sc.Network.Timeout = cmp.Or(sc.Network.Timeout, time.Second)
	sc.Step = max(cmp.Or(sc.Step, sc.Duration/200).Truncate(slot), slot)
	s := &Sim{sc: sc, next: slot, agenda: newAgenda(), net: rand.New(rand.NewPCG(sc.Seed, 1)), rnd: rand.New(rand.NewPCG(sc.Seed, 2))}
	firsts := map[string]int{"": 0}
	for _, k := range sc.Keys {
		firsts[k.Name] = len(s.keys)
		for i := range max(k.Count, 1) {
			name := k.Name
			if k.Count > 0 {
				name = fmt.Sprintf("%s-%d", k.Name, i)
			}
			s.keys = append(s.keys, limited{name, float64(k.Rate), float64(k.Burst)})
		}
	}
	for i, d := range sc.Demand {
		k := sc.key(d.Key)
		l := newLoad(d, firsts[d.Key], max(k.Count, 1), sc.Fleet.Leaves)
		l.change(0)
		s.loads = append(s.loads, l)
		for _, at := range l.instants(sc.Duration) {
			s.agenda.push(at, evDemand, i, 0, nil)
		}
	}
	s.leaves = make([]leafState, sc.Fleet.Leaves)
	for i := range s.leaves {
		s.order = append(s.order, i)
		s.leaves[i].source.rng = rand.New(rand.NewPCG(sc.Seed, uint64(i)<<8|3))
	}
	if err := s.choosePolicy(); err != nil {
		return nil, err
	}
	s.centre = s.policy.centre(0)
	s.meter.init(s)
	s.planFaults()
	for i := range s.leaves {
		if s.leaves[i].downs == 0 {
			at := time.Duration(s.leaves[i].source.rng.Float64() * float64(time.Second))
			s.agenda.push(at, evStart, i, 0, nil)
		}
	}
	return s, nil
}

// Run simulates a scenario to its end, or until ctx ends. Progress, if not nil, is called
// now and then with the time simulated since.
func Run(ctx context.Context, sc Scenario, progress func(time.Duration)) (Result, error) {
	s, err := New(sc)
	if err != nil {
		return Result{}, err
	}
	for s.now < s.sc.Duration {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		before := s.now
		s.tick()
		if progress != nil {
			progress(s.now - before)
		}
	}
	return s.Result(), nil
}

// tick simulates a slot.
func (s *Sim) tick() {
	for {
		e, ok := s.agenda.pop(s.next - 1)
		if !ok {
			break
		}
		s.now = max(s.now, e.at)
		s.handle(e)
	}
	s.now = s.next
	// No leaf is always the first that asks the upstream for the tokens of a slot.
	s.rnd.Shuffle(len(s.order), func(i, k int) { s.order[i], s.order[k] = s.order[k], s.order[i] })
	for _, i := range s.order {
		s.advance(i)
	}
	s.meter.endSlot(s)
	s.next += slot
}

func (s *Sim) handle(e event) {
	switch e.kind {
	case evSend:
		if l := &s.leaves[e.index]; l.dueGen == e.gen {
			s.send(int(e.index))
		}
	case evAsk:
		s.ask(e.flight)
	case evAnswer:
		s.receive(e.flight, e.flight.answer)
	case evTimeout:
		s.receive(e.flight, nil)
	case evDemand:
		s.changeDemand(s.loads[e.index])
	case evFault:
		s.fault(int(e.index), e.gen)
	case evStart:
		if l := &s.leaves[e.index]; l.downs == 0 && l.node == nil {
			s.start(int(e.index))
		}
	case evLeaf:
		s.leafFault(int(e.index), e.gen)
	}
}

// advance makes and decides the requests of a leaf up to now.
func (s *Sim) advance(i int) {
	l := &s.leaves[i]
	if l.node == nil {
		return
	}
	for {
		at, key, ok := l.source.pop(s.now)
		if !ok {
			return
		}
		allowed, step := l.node.allow(at, key)
		s.meter.count(i, key, allowed, step)
		if (!allowed || step == exact) && l.node.due() < l.due {
			s.schedule(i)
		}
	}
}

// schedule schedules the next exchange of a leaf.
func (s *Sim) schedule(i int) {
	l := &s.leaves[i]
	due := l.node.due()
	if l.flight != nil || due == l.due {
		return
	}
	l.due = due
	l.dueGen++
	if due < never {
		s.agenda.push(max(due, s.now), evSend, i, l.dueGen, nil)
	}
}

// changeDemand applies the change of a demand that is due.
func (s *Sim) changeDemand(changed *load) {
	for i := range s.leaves {
		if changed.parts[i] > 0 {
			s.advance(i)
		}
	}
	changed.change(s.now)
	for i := range s.leaves {
		if changed.parts[i] > 0 && s.leaves[i].node != nil {
			s.renew(i)
		}
	}
}

// renew sets the streams of a leaf to those of now.
func (s *Sim) renew(i int) {
	var all []stream
	for _, l := range s.loads {
		all = l.streams(all, i)
	}
	s.leaves[i].source.set(s.now, all)
}

// start starts a leaf as a new process.
func (s *Sim) start(i int) {
	l := &s.leaves[i]
	l.starts++
	name := fmt.Sprintf("leaf-%d", i)
	if l.starts > 1 {
		name = fmt.Sprintf("leaf-%d.%d", i, l.starts)
	}
	l.node = s.policy.node(s.now, name, i, rand.New(rand.NewPCG(s.sc.Seed, uint64(l.starts)<<40|uint64(i)<<8|4)))
	l.due, l.flight = never, nil
	s.renew(i)
	s.schedule(i)
}

// stop stops a leaf. A graceful one gives its assignments back.
func (s *Sim) stop(i int, graceful bool) {
	l := &s.leaves[i]
	s.advance(i)
	if message := s.policy.leave(s.now, l.node); graceful && message != nil {
		s.transmit(&flight{leaf: int32(i), oneWay: true, message: message})
	}
	l.node, l.flight = nil, nil
	l.dueGen++
}
