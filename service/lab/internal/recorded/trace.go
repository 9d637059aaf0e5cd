package recorded

import (
	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// reasons are the reasons of rejections, by their names.
var reasons = func() map[string]weir.Reason {
	all := map[string]weir.Reason{}
	for r := weir.OverRate; r <= weir.Recovering; r++ {
		all[r.String()] = r
	}
	return all
}()

// FromTrace returns a request of a load generator as a record.
func FromTrace(r trace.Record) recording.Record {
	rec := recording.Record{Intended: r.Intended, Start: r.Start, End: r.End, Inflight: r.Inflight}
	switch {
	case r.Success(), r.Reason == trace.Sent:
		rec.Outcome = recording.Ended(weir.Success)
	case r.Rejected():
		rec.Outcome = recording.Rejected(reasons[r.Reason])
	case r.Reason == trace.Timeout:
		rec.Outcome = recording.Ended(outcome.TimedOut)
	case r.Reason == trace.Canceled:
		rec.Outcome = recording.Ended(outcome.Left)
	case r.Reason == trace.Unsent:
		rec.Outcome = recording.Cancelled
	case r.Reason == trace.Refused, r.Reason == trace.Reset:
		rec.Outcome = recording.Ended(weir.Dropped)
	}
	if !rec.Outcome.Worked() {
		rec.Start = r.End
	}
	return rec
}
