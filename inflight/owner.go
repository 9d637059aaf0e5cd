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

// Release takes the units of a permit back, and has the limit learn from the outcome. A success that
// was not timed teaches nothing: its units go back to the credit.
func (o *owner) Release(g weir.Grant, outcome weir.Outcome) {
	if g.At >= 0 || outcome != weir.Success || !o.credit.put(g.N) {
		o.settle(g, outcome, true)
	}
}

// Report has the limit learn from the outcome of a permit's work, while the permit keeps its units. Afterwards the permit
// counts as one that was not timed, so that the limit learns from it once.
func (o *owner) Report(g weir.Grant, outcome weir.Outcome) weir.Grant {
	if g.At >= 0 {
		o.settle(g, outcome, false)
		g.At = ^g.At
	}
	return g
}

// settle has the limit learn from the outcome of a permit's work, if that was timed. With leaves, the permit's units
// are taken back.
func (o *owner) settle(g weir.Grant, outcome weir.Outcome, leaves bool) {
	o.lock()
	defer o.unlock()
	inflight, waited, r := noted(g.Note)
	r.N, r.Partition = g.N, o.partition
	s := limit.Sample{Start: g.At, End: o.now(), Waited: waited, Inflight: inflight, N: g.N, Outcome: outcome}
	timed := g.At >= 0
	if !timed {
		s.Start = o.beganLocked(^g.At, s.End)
	}
	if leaves {
		o.gate.Depart(s, r)
	}
	if timed {
		was := o.gate.Limit()
		cause := o.gate.Learn(s, r)
		o.thinLocked(s.End)
		o.serveLocked(s.End)
		o.eventLocked(was, cause, s)
		return
	}
	o.serveLocked(s.End)
}

// Usual returns an upper bound of the time that successful work usually takes:
// twice the 99th percentile of recent work; 0 if nothing is known.
func (l *Limiter) Usual() time.Duration {
	l.lock()
	defer l.unlock()
	return l.gate.Usual()
}
