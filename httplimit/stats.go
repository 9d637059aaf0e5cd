package httplimit

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
)

// Stats holds the counts of a Middleware since New, and its state.
type Stats struct {
	Exempt    uint64 // requests admitted without a decision
	LongLived int    // requests in progress that have left their limit, at most Config.LongLived
	LongFull  uint64 // requests that held their units while they went on, because the bound was reached
	Unrouted  uint64 // requests of the class "" that took a route, which is not known

	// Rules counts the decisions of each rule, in the order of Config.Rules.
	Rules []struct {
		Name     string
		Allowed  uint64 // on arrival or after a wait
		Denied   uint64
		Shadowed uint64 // requests that the rule would have denied without Shadow
		Failed   uint64 // requests admitted because the limiter has failed
	}

	// Classes counts the requests of each class, by name. Every decided request is
	// in exactly one of Admitted and Refused.
	Classes []struct {
		Class    string
		Admitted uint64
		Refused  map[weir.Reason]uint64  // by a rule or the limit; 0: another error, such as a client that left the queue
		Shadowed map[weir.Reason]uint64  // admitted requests that the limit would have refused without Shadow
		Outcomes map[weir.Outcome]uint64 // of the requests that have ended
		Wasted   uint64                  // of these, the ones that ended after their client had left, or their deadline
		Limiter  *inflight.Stats         // nil unless the limit is an inflight.Limiter
	}
}

// Stats returns the counts. They are read one after the other.
func (m *Middleware) Stats() Stats {
	s := m.door.Stats()
	return Stats{Exempt: s.Exempt, LongLived: m.long.Now(), LongFull: m.long.Stayed(), Unrouted: m.routes.unknown.Load(), Rules: s.Rules, Classes: s.Classes}
}
