package sim

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
)

// A Limiter is a guard that is not a gate.Gate: that of another library, or a whole
// inflight.Limiter. It may run in real time, or in a synctest bubble, if the caller
// keeps the clocks together: wait until Sim.Next, and then call Sim.Until.
type Limiter interface {
	// Acquire asks to admit a request. If the verdict is gate.Wait, the Limiter must
	// call answer once, while neither Until nor another answer runs: with zero if the
	// request is admitted, or with the reason why not.
	Acquire(r gate.Request, answer func(weir.Reason)) (Pass, gate.Verdict, weir.Reason)
	// Stats returns the known parts of the state and of the counts.
	Stats() gate.Stats
}

// A Pass identifies a request to a Limiter.
type Pass interface {
	// Cancel takes a request out of the queue. Its answer must not be called any more.
	Cancel()
	// Release ends a request that was admitted.
	Release(weir.Outcome)
}
