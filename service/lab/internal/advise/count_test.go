package advise

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// of returns the advice on records.
func of(t *testing.T, records []recording.Record, o Options) *Advice {
	t.Helper()
	a := Advise(&recorded.File{Records: records}, o)
	if !a.Fitted() {
		t.Fatal(a.Doubts)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Error(err)
	}
	return a
}

// regular returns requests of a service with workers that take a time each, at a rate.
func regular(n, workers int, takes, apart time.Duration) (all []recording.Record) {
	free := make([]time.Duration, workers)
	for i := range n {
		at := time.Duration(i) * apart
		w := i % workers
		start := max(at, free[w])
		free[w] = start + takes
		all = append(all, recording.Record{Intended: at, Start: at, End: free[w], Outcome: recording.Ended(weir.Success)})
	}
	return all
}

func TestWhatIsCounted(t *testing.T) {
	all := regular(1000, 4, 10*time.Millisecond, 10*time.Millisecond)
	for i := range all {
		switch {
		case i%10 == 0:
			all[i].Outcome, all[i].End = recording.Rejected(weir.QueueFull), all[i].Start
		case i%10 == 1:
			all[i].Outcome = recording.Ended(outcome.Late)
		case i%10 == 2:
			all[i].Outcome, all[i].End = recording.Cancelled, all[i].Start
		}
	}
	a := of(t, all, Options{})
	if a.Requests != 1000 || a.Rejected != 100 || a.Unwanted != 100 || a.WastedShare < 0.12 || a.WastedShare > 0.13 || a.Knee.Value != nil {
		t.Errorf("%+v", a)
	}
}

// Whatever a recording has, there is advice.
func FuzzAdvise(f *testing.F) {
	f.Add(int64(1e7), int64(2e7), uint8(1), int64(1e7), uint8(200))
	f.Add(int64(1e7), int64(-2e7), uint8(1), int64(1e7), uint8(100))
	f.Add(int64(1<<62), int64(1<<62), uint8(5), int64(1<<62), uint8(50))
	f.Add(int64(0), int64(0), uint8(17), int64(1), uint8(255))
	f.Fuzz(func(t *testing.T, apart, takes int64, o uint8, lag int64, n uint8) {
		var all []recording.Record
		for i := range int64(n) {
			at := time.Duration(i * apart)
			start := at + time.Duration(lag*(i%3))
			all = append(all, recording.Record{Intended: at, Start: start, End: start + time.Duration(takes*(i%7)), Outcome: recording.Outcome(o) * recording.Outcome(i%2)})
			all = append(all, recording.Record{Intended: at, Start: at, End: at + time.Duration(takes), Outcome: recording.Ended(weir.Success)})
		}
		a := Advise(&recorded.File{Records: all, Lost: 1}, Options{Quantile: 0.9, Target: time.Duration(takes)})
		if _, err := json.Marshal(a); err != nil {
			t.Error(err)
		}
		if n == 0 {
			return // a File has at least one record
		}
		p, err := a.Page()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Write(io.Discard); err != nil {
			t.Error(err)
		}
	})
}

// A window in which the work of some requests is not seen does not count, nor one with too few.
func TestWindowsThatDoNotFit(t *testing.T) {
	for _, tt := range []struct {
		w    window
		want bool
	}{
		{window{ended: 100, began: 100, response: 1, lost: 2}, true},
		{window{ended: 100, began: 100, response: 1, lost: 3}, false},
		{window{ended: 4, began: 100, response: 1}, false},
		{window{ended: 100, began: 4, response: 1}, false},
	} {
		if got := tt.w.fits(); got != tt.want {
			t.Errorf("%+v: %v", tt.w, got)
		}
	}
}

// A request that comes within the recording, and begins to work after the last one has come, is no work in a window.
func TestWorkAfterTheLastWindow(t *testing.T) {
	all := regular(1000, 4, 10*time.Millisecond, 10*time.Millisecond)
	before := windows(all)
	for i := 990; i < 1000; i++ {
		all[i].Start += time.Second
		all[i].End += time.Second
	}
	after := windows(all)
	last := len(after) - 1
	if got, most := after[last].inflight, before[last].inflight; got < 0 || got > most || after[last].began >= before[last].began {
		t.Errorf("%+v, without the wait %+v", after[last], before[last])
	}
	curve, _ := series(all)
	if got := curve[len(curve)-1].inflight; got < 0 || got > 1 {
		t.Errorf("%v in flight at the end", got)
	}
}

// A request that was sent long after it was due does not make the curves shorter.
func TestALateRequest(t *testing.T) {
	f := &recorded.File{Records: regular(1000, 4, 10*time.Millisecond, 10*time.Millisecond)}
	late := &f.Records[10]
	late.Start, late.End = late.Start+time.Minute, late.End+time.Minute
	f.Sort()
	came := Advise(f, Options{}).timeSheet().Panels[0].Lines[0].Points
	if last := came[len(came)-1].X; last < 9 || last > 11 {
		t.Errorf("the curve of 10 s ends at %v s", last)
	}
}

// Without enough to fit, there are no figures of the service, and the reason is told.
func TestTooFew(t *testing.T) {
	all := func(o recording.Outcome) []recording.Record {
		rs := regular(3000, 50, time.Second, 100*time.Millisecond)
		for i := range rs {
			rs[i].Outcome = o
		}
		return rs
	}
	const few, unknown = "Too few requests: ", "Of 3000 requests, the work of 0 is known from its beginning to its end: "
	for rule, tt := range map[string]struct {
		records []recording.Record
		want    string
	}{
		"none":         {nil, few},
		"one":          {regular(1, 1, time.Second, time.Second), few},
		"a few":        {regular(20, 4, time.Second, time.Second), few},
		"at once":      {regular(1000, 1000, time.Second, 0), few},
		"rejected":     {all(recording.Rejected(weir.OverRate)), unknown},
		"failed":       {all(recording.Ended(weir.Dropped)), unknown},
		"callers left": {all(recording.Ended(outcome.TimedOut)), unknown},
	} {
		a := Advise(&recorded.File{Records: tt.records}, Options{})
		var text bytes.Buffer
		if err := a.Table(&text); err != nil || a.Fitted() || len(a.Doubts) != 1 || !strings.HasPrefix(a.Doubts[0], tt.want) || !strings.Contains(text.String(), "knee          not known\n") {
			t.Errorf("%s: %v, %q\n%s", rule, err, a.Doubts, &text)
		}
	}
}

// A knee with a wide interval is told, and its settings are rough.
func TestAWideInterval(t *testing.T) {
	for high, want := range map[float64]int{20: 0, 40: 1} {
		low, knee := 10.0, 15.0
		a := Advice{Knee: Interval{&knee, &low, &high}}
		a.doubt(part{fit: &fitted{known: true, model: model{service: 1, workers: knee}, points: []point{{n: 1}}}})
		if len(a.Doubts) != want || want > 0 && !strings.HasPrefix(a.Doubts[0], "The knee is anywhere from 10.0 to 40.0 requests in flight") {
			t.Errorf("up to %v: %q", high, a.Doubts)
		}
	}
}

// A knee that is not known is not for lack of load if there was much more in flight than its lower bound.
func TestAnUnknownKnee(t *testing.T) {
	for most, want := range map[float64]string{12: "The load never came near the knee: it is at least 10.0 ", 50: "The load may not have come near the knee: it is at least 10.0 requests in flight, and there were 50.0 at most."} {
		low := 10.0
		var a Advice
		a.doubt(part{fit: &fitted{most: most, bound: Interval{Low: &low}}})
		if len(a.Doubts) != 1 || !strings.HasPrefix(a.Doubts[0], want) {
			t.Errorf("%v: %q", most, a.Doubts)
		}
	}
}

// The queue of M/M/c, by Erlang's formula in its usual form, and the approximation where it takes over.
func TestQueue(t *testing.T) {
	for _, tt := range []struct{ c, rho float64 }{{1, 0.5}, {3, 0.4}, {3, 0.9}, {20, 0.8}, {30, 0.95}} {
		a, b := tt.c*tt.rho, 1.0
		for k := 1.0; k <= tt.c; k++ {
			b = a * b / (k + a*b)
		}
		want := b / (1 - tt.rho*(1-b)) * tt.rho / (1 - tt.rho)
		if got := queue(tt.c, tt.rho); got < 0.999*want || got > 1.001*want {
			t.Errorf("%+v: %v: want %v", tt, got, want)
		}
	}
	if exact, rough := queue(many, 0.9), queue(many+0.01, 0.9); rough < 0.8*exact || rough > 1.2*exact {
		t.Errorf("%v and %v", exact, rough)
	}
}
