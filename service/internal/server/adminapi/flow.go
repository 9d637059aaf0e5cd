package adminapi

import (
	"maps"
	"time"

	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Flow has the outcomes of requests, as counts or as rates per second. With apply:
// all, a request counts under each rule that allowed it.
type Flow[N uint64 | float64] struct {
	Allowed   N `json:"allowed"`
	Denied    N `json:"denied"`
	Cancelled N `json:"cancelled"` // the client left while waiting
	Shadowed  N `json:"shadowed"`  // allowed only because of the mode shadow
	// Reasons are the denials, by reason.
	Reasons map[string]N `json:"denied_by_reason"`
	// Decisions of the candidate.
	TrialAllowed N `json:"trial_allowed"`
	TrialDenied  N `json:"trial_denied"`
	// Leases granted, and refused.
	Leased  N `json:"leased"`
	Refused N `json:"lease_refused"`
}

// rejected returns the requests for tokens or leases that were not granted.
func (f *Flow[N]) rejected() N { return f.Denied + f.Refused }

// numbers returns all fields but Reasons.
func (f *Flow[N]) numbers() []*N {
	return []*N{
		&f.Allowed, &f.Denied, &f.Cancelled, &f.Shadowed, &f.TrialAllowed, &f.TrialDenied, &f.Leased, &f.Refused,
	}
}

// add adds what was counted between then and now.
func (f *Flow[N]) add(now, then Flow[N]) {
	to, was := f.numbers(), then.numbers()
	for i, n := range now.numbers() {
		*to[i] += operator.Increase(*n, *was[i])
	}
	if f.Reasons == nil {
		f.Reasons = map[string]N{}
	}
	for why, n := range now.Reasons {
		if more := operator.Increase(n, then.Reasons[why]); more > 0 {
			f.Reasons[why] += more
		}
	}
}

// perSecond converts a count to a rate. It is zero if d is zero.
func perSecond(count Flow[uint64], d time.Duration) Flow[float64] {
	f := Flow[float64]{Reasons: map[string]float64{}}
	if d <= 0 {
		return f
	}
	to := f.numbers()
	for i, n := range count.numbers() {
		*to[i] = operator.Rate(*n, d)
	}
	for why, n := range count.Reasons {
		f.Reasons[why] = operator.Rate(n, d)
	}
	return f
}

// between returns the rates between two counts, d apart.
func between(now, then Flow[uint64], d time.Duration) Flow[float64] {
	var f Flow[uint64]
	f.add(now, then)
	return perSecond(f, d)
}

// A count has the counters of a rule.
type count struct {
	flow  Flow[uint64]
	waits waiting.Times
}

func countOf(r *server.RuleStats) count {
	f := Flow[uint64]{
		Allowed: r.Allowed, Cancelled: r.Cancelled, Shadowed: r.Shadowed, Reasons: map[string]uint64{},
		TrialAllowed: r.TrialAllowed, TrialDenied: r.TrialDenied, Leased: r.Leases.Granted,
	}
	for why, n := range r.Denied {
		f.Denied += n
		f.Reasons[why.String()] = n
	}
	for n := range maps.Values(r.Leases.Refused) {
		f.Refused += n
	}
	return count{f, r.Waits}
}

// quantile returns a quantile of the waits between two counts, interpolated within a
// bucket; false if there are none.
func quantile(q float64, now, then waiting.Times) (time.Duration, bool) {
	var total uint64
	for i := range now.Counts {
		now.Counts[i] = operator.Increase(now.Counts[i], then.Counts[i])
		total += now.Counts[i]
	}
	if total == 0 {
		return 0, false
	}
	rank := q * float64(total)
	low := time.Duration(0)
	for i, high := range waiting.Bounds {
		n := float64(now.Counts[i])
		if rank <= n {
			return low + time.Duration(float64(high-low)*rank/n), true
		}
		rank -= n
		low = high
	}
	return low, true
}
