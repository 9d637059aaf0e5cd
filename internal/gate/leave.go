package gate

import (
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/servicetime"
	"github.com/weir-go/weir/limit"
)

// Leave is the departure of an admitted request, with its sample, and returns why the limit
// moved, if it did. Of r, N and what Learn says matter. If the outcome says that the work was
// abandoned, its units stay in flight until it could have ended; a caller that knows that it
// has ended says Dropped or Ignored instead. Next follows. It panics if more units leave
// than have entered.
func (g *Gate[W]) Leave(s limit.Sample, r Request) limit.Cause {
	g.Depart(s, r)
	return g.Learn(s, r)
}

// Learn has the limit learn from the sample of a request, as Leave does, but its units stay in
// flight. Of r, only the Priority, the Partition, the Route and whether there is a Deadline
// matter. Next follows.
func (g *Gate[W]) Learn(s limit.Sample, r Request) limit.Cause {
	d := s.End - s.Start
	switch s.Outcome {
	case outcome.Left:
		if p := g.patienceFor(&r); p != nil {
			p.Left(s.End, s.Waited+d)
			s.Outcome = lessonOfLeaver(p, s.Waited+d, outcome.TimedOut)
		}
	case outcome.Gone:
		if p := g.patienceFor(&r); p != nil {
			p.Gone(s.End, s.Waited+d)
			s.Outcome = lessonOfLeaver(p, s.Waited+d, outcome.Late)
		}
	}
	if s.Outcome == weir.Success {
		g.costs.Ended(r.Route, d)
	}
	s.Cost = g.costs.Of(r.Route)
	switch s.Outcome {
	case weir.Success:
		if p := g.callers[g.kindOf(&r)]; p != nil && r.Deadline == 0 {
			p.Stayed(s.Waited + d)
			if g.nearlyLate(p, s.Waited+d) {
				s.Outcome = outcome.Late
			}
		}
		g.work.Ended(d)
		g.work.Took.Add(d)
		g.holds.Succeeded(&g.work.Took)
	case outcome.Late:
		g.work.Ended(d)
	}
	return g.changed(g.alg.Observe(s))
}

// Depart takes a request out of flight, as Leave does, but the limit learns nothing from it. Only the Outcome and the
// End of s need be exact.
func (g *Gate[W]) Depart(s limit.Sample, r Request) {
	g.check(r, 0)
	now := g.advance(s.End)
	switch s.Outcome {
	case weir.Success:
		g.stats.Success++
	case weir.Dropped, outcome.TimedOut, outcome.Late:
		g.stats.Dropped++
	default:
		g.stats.Ignored++
	}
	if outcome.Wasted(s.Outcome) {
		g.stats.Wasted++
		if s.Waited > s.End-s.Start {
			g.shortfall.Unserved() // most of its time went by in the queue
		}
	}
	if outcome.Abandoned(s.Outcome) {
		g.stats.Abandoned++
		if g.holds.Add(&g.work.Took, s.Start, now, r.N, r.Partition) {
			return
		}
	}
	g.release(r.N, r.Partition)
	g.work.Freed(now, r.N, g.line.len > 0)
}

// lessonOfLeaver returns the outcome by which the limit learns from work whose caller left at an age. It is late if
// the caller stayed for at least two thirds of the time that callers are known to stay. A caller that left earlier, or
// before that time is known, had another reason: its work is Ignored.
func lessonOfLeaver(p *servicetime.Patience, age time.Duration, late weir.Outcome) weir.Outcome {
	if most := p.Proven(); most == 0 || age < most-most/3 {
		return weir.Ignored
	}
	return late
}

// nearlyLate reports whether work ended in the last tenth of the time that its caller stays. The limit learns from it
// as from late work, because with as much in flight other such work is late already. Where even quick work takes nearly
// as long as callers stay, a lower limit would not help, and nearlyLate is false.
func (g *Gate[W]) nearlyLate(p *servicetime.Patience, age time.Duration) bool {
	most := p.Proven()
	return most > 0 && age > most-most/10 && g.work.Took.Quick() < most*17/20
}

// Adjust changes what an admitted request holds from r.N units to m, which may
// exceed the limit. Next follows. It panics if more leaves than has entered.
func (g *Gate[W]) Adjust(r Request, m int) {
	g.check(r, m)
	g.release(r.N-m, r.Partition)
}

func (g *Gate[W]) check(r Request, m int) {
	busy := g.stats.Inflight - g.holds.Units()
	if r.N < 0 || m < 0 || r.N > busy {
		panic("inflight: more units leave than have entered")
	}
	if m > math.MaxInt-(g.stats.Inflight-r.N) {
		panic("inflight: more units than can be counted")
	}
}
