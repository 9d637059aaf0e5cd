package inflight

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// An owner is the weir.Owner of the permits of one partition. It keeps Release
// and Use, which a Permit calls, out of Limiter's methods.
type owner struct {
	*Limiter
	partition int
}

// Use changes the number of units that a permit holds.
func (o *owner) Use(g weir.Grant, n int) int {
	o.lock()
	defer o.unlock()
	o.gate.Adjust(gate.Request{N: g.N, Partition: o.partition}, n)
	o.serveLocked(o.now())
	return n
}

// Release takes a permit's units back and learns how the work went.
func (o *owner) Release(g weir.Grant, outcome weir.Outcome) {
	if g.At < 0 && outcome == weir.Success && o.credit.put(g.N) {
		return
	}
	if e := o.leave(g, o.partition, outcome); e != nil {
		o.trace(*e)
	}
}

// Report learns from how the work of a permit went, while the permit keeps its
// units. From then on the permit counts as one that was not timed.
func (o *owner) Report(g weir.Grant, outcome weir.Outcome) weir.Grant {
	if g.At < 0 {
		return g
	}
	g, e := o.learn(g, outcome)
	if e != nil {
		o.trace(*e)
	}
	return g
}

func (l *Limiter) learn(g weir.Grant, outcome weir.Outcome) (weir.Grant, *Event) {
	l.lock()
	defer l.unlock()
	s := sampleOf(g, l.now(), outcome)
	was := l.gate.Limit()
	cause := l.gate.Learn(s)
	l.thinLocked(s.End)
	l.serveLocked(s.End)
	g.At = ^g.At
	return g, l.eventLocked(was, cause, s)
}

func sampleOf(g weir.Grant, end time.Duration, outcome weir.Outcome) limit.Sample {
	inflight, waited := noted(g.Note)
	return limit.Sample{Start: g.At, End: end, Waited: waited, Inflight: inflight, N: g.N, Outcome: outcome}
}

// Usual returns an upper bound of the time that successful work usually takes:
// twice the 99th percentile of recent work; 0 if nothing is known.
func (l *Limiter) Usual() time.Duration {
	l.lock()
	defer l.unlock()
	return l.gate.Usual()
}

func (l *Limiter) leave(g weir.Grant, partition int, outcome weir.Outcome) *Event {
	l.lock()
	defer l.unlock()
	r := gate.Request{N: g.N, Partition: partition}
	s := sampleOf(g, l.now(), outcome)
	if g.At < 0 { // not timed
		s.Start = l.beganLocked(^g.At, s.End)
		l.gate.Depart(s, r)
		l.serveLocked(s.End)
		return nil
	}
	was := l.gate.Limit()
	cause := l.gate.Leave(s, r)
	l.thinLocked(s.End)
	l.serveLocked(s.End)
	return l.eventLocked(was, cause, s)
}
