// Package record makes the records of a node: of leases, and of requests that may wait for tokens.
package record

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/recording"
)

// A Recorder makes records, each with the name of a rule as its class. With a nil one, methods do nothing.
type Recorder struct{ to *recording.Recorder }

// New returns a Recorder. If to is nil, it is nil.
func New(to *recording.Recorder) *Recorder {
	if to == nil {
		return nil
	}
	return &Recorder{to}
}

// Lease adds the record of a lease that was held for some time, after a wait. Inflight are the units of the rule when it was
// granted.
func (r *Recorder) Lease(rule string, waited, held time.Duration, inflight int, o weir.Outcome) {
	if r != nil {
		end := r.to.Now()
		r.to.Add(&recording.Record{
			Intended: end - held - waited, Wait: waited, Start: end - held, End: end, Inflight: inflight,
			Class: r.to.Class(rule), Outcome: recording.Ended(o),
		})
	}
}

// Refusal adds the record of a request that got neither a lease nor tokens after a wait, if it was rejected, or its
// caller has left.
func (r *Recorder) Refusal(rule string, waited time.Duration, inflight int, err error) {
	rejected, ok := err.(*weir.Rejection)
	switch {
	case r == nil:
	case ok:
		r.end(rule, waited, inflight, recording.Rejected(rejected.Reason))
	case err == context.Canceled, err == context.DeadlineExceeded:
		r.end(rule, waited, inflight, recording.Cancelled)
	}
}

// Allowed adds the record of a request that has got its tokens after a wait.
func (r *Recorder) Allowed(rule string, waited time.Duration) {
	if r != nil {
		r.end(rule, waited, 0, recording.Allowed)
	}
}

func (r *Recorder) end(rule string, waited time.Duration, inflight int, o recording.Outcome) {
	end := r.to.Now()
	r.to.Add(&recording.Record{
		Intended: end - waited, Wait: waited, Start: end, End: end, Inflight: inflight, Class: r.to.Class(rule), Outcome: o,
	})
}
