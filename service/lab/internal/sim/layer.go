package sim

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
)

// A job is the visit of an attempt to a layer. Its caller is a call, or a job of the
// layer above; both are nil after the caller has left.
type job struct {
	slot
	state         state
	held          bool       // the guard waits for its Leave
	free          bool       // it holds no worker: a stream, or a fault
	fate          resultKind // of a faulty job; ok if it is none
	layer         *layer
	guard         *guard // the instance that the job came to; nil without one
	call          *call
	parent, child *job
	attempt
	nth      int32 // index among the calls of the parent, and of its parents
	calls    int32 // of other layers, done
	tries    int32 // of the present one
	arrived  time.Duration
	entered  time.Duration // when the guard saw it
	share    share
	ticket   gate.Ticket[*job]
	pass     Pass // of a layer's other, while it waits and while it is held
	admitted time.Duration
	inflight int
}

type state uint8

const (
	atGate   state = iota // arriving or waiting
	queued                // for a worker
	working               // has a worker
	calling               // has a worker, and waits for the layer below
	finished              // has left its worker, which the guard has yet to see
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
	timedOut              // its caller had given up
	rejected              // by a guard
)

// A layer is the state of a Layer.
type layer struct {
	station
	cfg    *Layer
	index  int32
	calls  [][]int       // by class: indices of the layers that a request calls
	guards []guard       // the instances of its Guard
	level  time.Duration // when the last has started, or the warm-up has ended
	flow
}

func (l *layer) init(s *Sim, index int32) {
	l.cfg, l.index = &s.scenario.Layers[index], index
	for _, class := range s.classes {
		l.calls = append(l.calls, s.scenario.targets(int(index), class))
	}
	l.initGuards(s)
	l.station.init(l.cfg, s.classes)
	for i, c := range l.cfg.Changes {
		s.agenda.push(c.At, evChange, index, uint32(i))
	}
}

// arrive handles the arrival of a job at its layer.
func (s *Sim) arrive(j *job) {
	l := j.layer
	l.enter(s.now)
	j.arrived, j.state = s.now, atGate
	if l.cfg.Timeout > 0 {
		j.deadline = min(j.deadline, s.now+l.cfg.Timeout)
		s.agenda.push(s.now+l.cfg.Timeout, evLate, j.index, j.gen)
	}
	if len(l.guards) == 0 {
		s.admitted(j)
		return
	}
	j.guard = l.instance(s, j)
	s.enter(j)
}

// worked handles the end of a job's own work.
func (s *Sim) worked(j *job) {
	if j.fails && j.layer.index == 0 {
		j.fate = failed
	}
	if j.fate != ok || len(j.layer.calls[j.class]) == 0 {
		s.end(j, j.failure())
		return
	}
	j.state = calling
	if l := j.layer; l.cfg.Sharing && !j.free { // a job that waits does not share
		l.note(s.now)
		l.busy--
	}
	s.callBelow(j)
}

func (s *Sim) callBelow(j *job) {
	child, to := s.jobs.get(), j.layer.calls[j.class][j.calls]
	*child = job{slot: child.slot, layer: &s.layers[to], parent: j, attempt: j.attempt, nth: j.nth*31 + j.calls*7 + j.tries + 1}
	j.child = child
	s.arrive(child)
}

// answer tells the caller of a job how it ended.
func (s *Sim) answer(c *call, parent *job, r result) {
	if c != nil {
		s.answered(c, r)
	}
	if parent == nil {
		return
	}
	parent.child = nil
	parent.tries++
	more := int(parent.tries) < parent.layer.cfg.Attempts
	if r.kind == ok {
		parent.calls, parent.tries = parent.calls+1, 0
		more = int(parent.calls) < len(parent.layer.calls[parent.class])
	}
	if more {
		s.callBelow(parent)
	} else {
		s.end(parent, r)
	}
}

// end handles the departure of a job from its layer, served or not.
func (s *Sim) end(j *job, r result) {
	l := j.layer
	l.vacate(s, j)
	abandoned := j.call == nil && j.parent == nil
	if j.guard.stalled() {
		j.state = finished
		j.guard.miss(j, sight{kind: departure, result: r, abandoned: abandoned})
		s.serve(l)
		return
	}
	s.depart(j, r, abandoned)
}

// depart lets the guard and the caller of a job see its end.
func (s *Sim) depart(j *job, r result, abandoned bool) {
	l := j.layer
	l.leave(s.now, s.now-j.arrived, r)
	if j.held {
		o := outcomeOf(r)
		if abandoned {
			o = j.lost(outcome.Late, outcome.Gone)
		}
		s.leave(j, o)
	}
	c, parent, g := j.call, j.parent, j.guard
	served := j.state != atGate || j.held
	s.retire(j)
	s.answer(c, parent, r)
	if served {
		s.serve(l)
		s.drain(g)
	}
}

// lost returns the outcome of a job after its caller has left, for its guard: late, if
// the guard knew when that would be. A Limiter is told so in any case.
func (j *job) lost(late, left weir.Outcome) weir.Outcome {
	if j.guard.gate != nil && j.layer.cfg.Guard.Blind {
		return left
	}
	return late
}

// outcomeOf returns the outcome of a job for its guard.
func outcomeOf(r result) weir.Outcome {
	switch {
	case r.kind == ok:
		return weir.Success
	case r.kind == failed:
		return weir.Ignored
	default:
		return weir.Dropped
	}
}

// abandon handles the departure of a job's caller before the end of the job. The caller
// gets no answer.
func (s *Sim) abandon(j *job) {
	l, g := j.layer, j.guard
	j.call, j.parent = nil, nil
	if g.stalled() {
		g.miss(j, sight{kind: abandonment})
		return
	}
	waiting := j.state == atGate
	switch {
	case !waiting:
	case j.pass != nil:
		j.pass.Cancel()
	case !g.gate.Cancel(s.now+g.epoch, j.ticket):
		return // its answer is being given at this very instant
	}
	if j.held && l.cfg.Guard.Library {
		s.leave(j, j.lost(outcome.TimedOut, outcome.Left))
	}
	if !waiting && (j.state == finished || !l.leavesAtOnce(j)) {
		if j.state != finished && s.now >= l.from {
			l.unwanted++
		}
		s.drain(g)
		return
	}
	if child := j.child; child != nil {
		j.child = nil
		s.abandon(child)
	}
	if waiting {
		l.leave(s.now, s.now-j.arrived, result{kind: timedOut})
		s.retire(j)
		s.drain(g)
		return
	}
	s.end(j, result{kind: timedOut})
}
