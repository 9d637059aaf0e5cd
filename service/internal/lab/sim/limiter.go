package sim

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
)

// A Limiter is a guard that is not a gate.Gate: another library's, or a whole
// inflight.Limiter. It may live in real time, or in what a synctest bubble
// takes for it, as long as whoever runs the Sim keeps the two clocks together:
// wait for Sim.Next, and then go there by Sim.Until.
type Limiter interface {
	// Acquire asks to let a request in. If the verdict is gate.Wait, answer is
	// to be called once, while neither Until nor another answer runs: with
	// zero if the request is let in, or the reason why not.
	Acquire(r gate.Request, answer func(weir.Reason)) (Pass, gate.Verdict, weir.Reason)
	// Stats returns the state, as far as it is known, and the counts likewise.
	Stats() gate.Stats
}

// A Pass is what a Limiter knows a request by.
type Pass interface {
	// Cancel takes a request out of the queue. It is not answered any more.
	Cancel()
	// Release is the departure of a request that was let in.
	Release(weir.Outcome)
}

// ask is a job's arrival at a guard of another kind.
func (s *Sim) ask(j *job, r gate.Request) {
	verdict, why := gate.Refuse, weir.Reason(0)
	j.pass, verdict, why = j.guard.other.Acquire(r, func(why weir.Reason) {
		if why != 0 {
			s.end(j, result{rejected, why})
			return
		}
		s.admitted(j)
	})
	switch verdict {
	case gate.Admit:
		s.admitted(j)
	case gate.Refuse:
		s.end(j, result{rejected, why})
	}
}
