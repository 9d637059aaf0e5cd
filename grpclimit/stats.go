package grpclimit

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/throttle"
)

// Stats holds the counts of an Interceptor since New.
type Stats struct {
	Exempt uint64 // calls admitted without a decision

	// Rules counts the decisions of each rule, in the order of Config.Rules.
	Rules []struct {
		Name     string
		Allowed  uint64 // on arrival or after a wait
		Denied   uint64
		Shadowed uint64 // would have been denied, but for Shadow
	}

	// Classes counts the calls of each class, by name. Every decided call is in
	// exactly one of Admitted and Refused.
	Classes []struct {
		Class    string
		Admitted uint64
		Refused  map[weir.Reason]uint64  // by a rule or the limit; 0: another error, such as a caller that left the queue
		Shadowed map[weir.Reason]uint64  // admitted calls that the limit would have refused, but for Shadow
		Outcomes map[weir.Outcome]uint64 // of the calls that have ended
		Limiter  *inflight.Stats         // nil unless the limit is an inflight.Limiter
	}
}

// Stats returns the counts. They are read one after the other.
func (i *Interceptor) Stats() Stats { return Stats(i.door.Stats()) }

// ClientStats holds the state of a Client, and its counts since NewClient.
type ClientStats struct {
	Waiting int // calls that wait because the server asked for it

	Sent      uint64 // calls sent, retries included
	Waited    uint64 // calls sent after a wait that the server asked for
	Rejected  uint64 // calls refused because that wait or its queue was too long
	Throttled uint64 // calls refused by the adaptive throttle
	Limited   uint64 // calls refused by the limiter
	Cancelled uint64 // calls not sent because the caller left, or the limiter failed

	Outcomes map[weir.Outcome]uint64 // of the calls that have ended

	Throttle *throttle.Stats      // nil without a throttle
	Budget   *throttle.RetryStats // of retries; nil without retries
	Limiter  *inflight.Stats      // nil unless the limiter is an inflight.Limiter
}
