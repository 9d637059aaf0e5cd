package recorded_test

import (
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

func TestFromTrace(t *testing.T) {
	for _, tt := range []struct {
		in   trace.Record
		want recording.Outcome
	}{
		{trace.Record{Status: 200}, recording.Ended(weir.Success)},
		{trace.Record{Reason: trace.Sent}, recording.Ended(weir.Success)},
		{trace.Record{Status: 404}, recording.Ended(weir.Ignored)},
		{trace.Record{Status: 500}, recording.Ended(weir.Ignored)},
		{trace.Record{Status: 503}, recording.Rejected(0)},
		{trace.Record{Status: 503, Reason: "queue_full"}, recording.Rejected(weir.QueueFull)},
		{trace.Record{Status: 429, Reason: "over_rate"}, recording.Rejected(weir.OverRate)},
		{trace.Record{Reason: trace.Timeout}, recording.Ended(outcome.TimedOut)},
		{trace.Record{Reason: trace.Canceled}, recording.Ended(outcome.Left)},
		{trace.Record{Reason: trace.Refused}, recording.Ended(weir.Dropped)},
		{trace.Record{Reason: trace.Unsent}, recording.Cancelled},
		{trace.Record{Reason: trace.Failed}, recording.Ended(weir.Ignored)},
	} {
		tt.in.Intended, tt.in.Start, tt.in.End, tt.in.Inflight = 1, 2, 3, 4
		got := recorded.FromTrace(tt.in)
		if got.Outcome != tt.want || got.Intended != 1 || got.End != 3 || got.Inflight != 4 || got.Outcome.Worked() != (got.Start == 2) {
			t.Errorf("%+v: %+v", tt.in, got)
		}
	}
}
