package station

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
)

const ms = time.Millisecond

// done returns a request that worked from start to end.
func done(start, end time.Duration) recording.Record {
	return recording.Record{Intended: start, Start: start, End: end, Inflight: 1, Outcome: recording.Ended(weir.Success)}
}

// worksOf returns the work of each request, negative if it had to wait; 0 if it is not known.
func worksOf(st Station, rs []recording.Record) (all []time.Duration) {
	for _, p := range st.Pieces(rs, Admitted(rs)) {
		if !p.Alone {
			p.Work = -p.Work
		}
		all = append(all, p.Work)
	}
	return all
}

func TestPieces(t *testing.T) {
	left := done(0, 10*ms)
	left.Outcome = recording.Ended(outcome.TimedOut)
	refused := recording.Record{Outcome: recording.Rejected(0)}
	for _, tt := range []struct {
		rule string
		st   Station
		rs   []recording.Record
		want []time.Duration
	}{
		{"one after the other", Station{Workers: 1}, []recording.Record{done(0, 10*ms), done(0, 30*ms), done(50*ms, 60*ms)}, []time.Duration{10 * ms, -20 * ms, 10 * ms}},
		{"two at a time", Station{Workers: 2}, []recording.Record{done(0, 10*ms), done(0, 30*ms), done(5*ms, 20*ms)}, []time.Duration{10 * ms, 30 * ms, -10 * ms}},
		{"as many as come", Station{}, []recording.Record{done(0, 10*ms), done(0, 30*ms)}, []time.Duration{10 * ms, 30 * ms}},
		{"half the speed each", Station{Workers: 1, Sharing: true}, []recording.Record{done(0, 20*ms), done(0, 20*ms), done(40*ms, 50*ms)}, []time.Duration{10 * ms, -10 * ms, 10 * ms}},
		{"no work of those turned away", Station{Workers: 1}, []recording.Record{refused, done(0, 10*ms)}, []time.Duration{0, 10 * ms}},
		{"work that a caller has left goes on as long as usual", Station{Workers: 1}, []recording.Record{done(0, 40*ms), left, done(0, 100*ms)}, []time.Duration{40 * ms, 0, -20 * ms}},
	} {
		got := worksOf(tt.st, tt.rs)
		for i := range got {
			if got[i] == -0 {
				got[i] = 0
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v: want %v", tt.rule, got, tt.want)
		}
	}
}

func TestStationText(t *testing.T) {
	one := 1
	for want, st := range map[string]Station{
		"1 worker": {Workers: 1}, "2 workers, queue 1": {Workers: 2, Queue: &one}, "as many workers as come": {},
		"1 processor, which requests share": {Workers: 1, Sharing: true}, "10 processors, which requests share": {Workers: 10, Sharing: true},
	} {
		if got := st.String(); got != want {
			t.Errorf("%s: want %s", got, want)
		}
	}
}
