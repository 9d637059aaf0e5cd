package sim

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gate"
	"github.com/weir-go/weir/limit"
)

// A job is the visit of an attempt to a layer. Its caller is a call or a job
// of the layer above; both are nil once the caller has left.
type job struct {
	slot
	state         state
	held          bool // the guard waits for its Leave
	layer         *layer
	call          *call
	parent, child *job
	client        int32
	tenant, class int32
	try           int32 // of the call
	nth           int32 // of the parent's calls, and of theirs
	calls         int32 // of the next layer, done
	tries         int32 // of the present one
	id            uint64
	deadline      time.Duration // when the caller leaves
	arrived       time.Duration
	ticket        gate.Ticket
	pass          Pass // of a layer's other, while it waits and while it is held
	admitted      time.Duration
	inflight      int
}

type state uint8

const (
	atGate  state = iota // arriving or waiting
	queued               // for a worker
	working              // has a worker
	calling              // has a worker, and waits for the layer below
)

// A result is how an attempt, or a job, ends.
type result struct {
	kind   resultKind
	reason weir.Reason // of rejected
}

type resultKind uint8

const (
	ok         resultKind = iota
	failed                // for reasons that are not load
	overloaded            // refused by a station
	timedOut              // nobody waited for it any longer
	rejected              // by a guard
)

// A layer is a Layer that runs.
type layer struct {
	station
	cfg   *Layer
	index int32
	below *layer
	gate  *gate.Gate[*job] // nil: no guard, or
	other Limiter          // one of another kind
	timer time.Duration    // of the next evGate

	draining bool
	flow     flow
}

func (l *layer) init(s *Sim, index int32, classes map[string]int32) error {
	l.cfg, l.index, l.timer = &s.scenario.Layers[index], index, never
	if int(index) < len(s.layers)-1 {
		l.below = &s.layers[index+1]
	}
	switch g := l.cfg.Guard; {
	case g == nil:
	case g.Other != nil:
		l.other = g.Other()
	case g.Rate != nil:
		l.other = newTurns(s, index, g.Rate)
	default:
		alg, err := g.Limit.algorithm()
		if err != nil {
			return err
		}
		l.gate = gate.New[*job](alg, g.config())
	}
	l.station.init(l.cfg, classes)
	for i, c := range l.cfg.Changes {
		s.agenda.push(c.At, evChange, index, uint32(i))
	}
	return nil
}

// arrive is a job's arrival at its layer.
func (s *Sim) arrive(j *job) {
	l := j.layer
	l.flow.enter(s.now)
	j.arrived, j.state = s.now, atGate
	if l.cfg.Timeout > 0 {
		j.deadline = min(j.deadline, s.now+l.cfg.Timeout)
		s.agenda.push(s.now+l.cfg.Timeout, evLate, j.index, j.gen)
	}
	switch {
	case l.other != nil:
		s.ask(j)
		return
	case l.gate == nil:
		s.admitted(j)
		return
	}
	r := s.request(j)
	switch verdict, why := l.gate.Enter(r); verdict {
	case gate.Admit:
		s.admitted(j)
	case gate.Refuse:
		s.end(j, result{rejected, why})
	case gate.Wait:
		t, why := l.gate.Join(s.now, r, j)
		if j.ticket = t; why != 0 {
			s.end(j, result{rejected, why})
		}
		s.drain(l)
	}
}

func (s *Sim) admitted(j *job) {
	j.held = j.layer.cfg.Guard != nil
	if g := j.layer.gate; g != nil {
		j.admitted, j.inflight = s.now, g.Inflight()
	}
	s.station(j)
}

// drain tells those whose wait at the guard is over, and has the guard's
// deadline on the agenda. What comes of it may call drain again, which leaves
// the work to the first.
func (s *Sim) drain(l *layer) {
	if l.draining || l.gate == nil {
		return
	}
	l.draining = true
	for {
		a, more := l.gate.Next(s.now)
		if !more {
			break
		}
		if a.Reason != 0 {
			s.end(a.Waiter, result{rejected, a.Reason})
		} else {
			s.admitted(a.Waiter)
		}
	}
	l.draining = false
	if at, some := l.gate.Deadline(); some && at < l.timer {
		l.timer = max(at, s.now)
		s.agenda.push(l.timer, evGate, l.index, 0)
	}
}

// worked is the end of a job's own work.
func (s *Sim) worked(j *job) {
	if j.layer.below == nil {
		s.end(j, result{})
		return
	}
	j.state = calling
	if l := j.layer; l.cfg.Sharing { // who only waits does not share
		l.flow.note(s.now)
		l.busy--
		l.flow.busy--
	}
	s.callBelow(j)
}

func (s *Sim) callBelow(j *job) {
	child := s.jobs.get()
	*child = job{slot: child.slot, layer: j.layer.below, parent: j, client: j.client, tenant: j.tenant, class: j.class,
		id: j.id, try: j.try, nth: j.nth*31 + j.calls*7 + j.tries + 1, deadline: j.deadline}
	j.child = child
	s.arrive(child)
}

// answer tells whoever called a job how it ended.
func (s *Sim) answer(c *call, parent *job, r result) {
	switch {
	case c != nil:
		s.answered(c, r)
	case parent == nil:
	case r.kind == ok:
		parent.child = nil
		parent.calls++
		if parent.tries = 0; int(parent.calls) < max(parent.layer.cfg.Calls, 1) {
			s.callBelow(parent)
		} else {
			s.end(parent, r)
		}
	default:
		parent.child = nil
		if parent.tries++; int(parent.tries) < parent.layer.cfg.Attempts {
			s.callBelow(parent)
		} else {
			s.end(parent, r)
		}
	}
}

// end is a job's departure from its layer, whether it was served or not.
func (s *Sim) end(j *job, r result) {
	l := j.layer
	l.vacate(s, j)
	l.flow.leave(s.now, s.now-j.arrived, r)
	abandoned := j.call == nil && j.parent == nil
	if j.held {
		s.leave(j, outcome(r, abandoned))
	}
	c, parent := j.call, j.parent
	served := j.state != atGate || j.held
	s.jobs.put(j)
	s.answer(c, parent, r)
	if served {
		s.serve(l)
		s.drain(l)
	}
}

// outcome is what the end of a job teaches its guard. Work that nobody waited
// for any longer has failed because of load, however it ended.
func outcome(r result, abandoned bool) weir.Outcome {
	switch {
	case abandoned:
		return weir.Late
	case r.kind == ok:
		return weir.Success
	case r.kind == failed:
		return weir.Ignored
	default:
		return weir.Dropped
	}
}

func (s *Sim) leave(j *job, o weir.Outcome) {
	j.held = false
	if j.pass != nil {
		j.pass.Release(o)
		return
	}
	j.layer.gate.Leave(limit.Sample{Start: j.admitted, End: s.now, Waited: j.admitted - j.arrived, Inflight: j.inflight, Outcome: o}, s.request(j))
}

// abandon is the departure of a job's caller before the job's end. The caller
// is not answered.
func (s *Sim) abandon(j *job) {
	l := j.layer
	j.call, j.parent = nil, nil
	waiting := j.state == atGate
	switch {
	case !waiting:
	case j.pass != nil:
		j.pass.Cancel()
	case !l.gate.Cancel(j.ticket):
		return // its answer is being given at this very instant
	}
	if j.held && l.cfg.Guard.Library {
		s.leave(j, weir.TimedOut)
	}
	if !waiting && !l.cfg.CancelAbandoned {
		s.drain(l)
		return
	}
	if child := j.child; child != nil {
		j.child = nil
		s.abandon(child)
	}
	if waiting {
		l.flow.leave(s.now, s.now-j.arrived, result{kind: timedOut})
		s.jobs.put(j)
		s.drain(l)
		return
	}
	s.end(j, result{kind: timedOut})
}
