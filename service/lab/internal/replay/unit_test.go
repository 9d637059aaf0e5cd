package replay

import (
	"bytes"
	"encoding/json"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
	"github.com/weir-go/weir/service/lab/internal/station"
)

const ms = time.Millisecond

// done returns a request that worked from start to end.
func done(start, end time.Duration) recording.Record {
	return recording.Record{Intended: start, Start: start, End: end, Inflight: 1, Outcome: recording.Ended(weir.Success)}
}

func TestLimitText(t *testing.T) {
	for text, want := range map[string]Limit{"none": {Name: "none"}, "auto": {Name: "auto"}, "20": {Name: "fixed", N: 20}} {
		var l Limit
		testrig.Must(t, l.UnmarshalText([]byte(text)))
		if l != want || l.String() != text {
			t.Errorf("%s: %+v", text, l)
		}
	}
	for _, text := range []string{"", "0", "-1", "2.5", "fixed", "1000001"} {
		if err := new(Limit).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// Requests count by how they ended.
func TestTally(t *testing.T) {
	tally := newTally(time.Second)
	for _, o := range []recording.Outcome{
		recording.Ended(weir.Success), recording.Ended(weir.Success), recording.Ended(weir.Ignored), recording.Ended(weir.Dropped),
		recording.Rejected(weir.QueueFull), recording.Ended(outcome.Late), recording.Ended(outcome.TimedOut), recording.Cancelled,
	} {
		tally.add(0, &recording.Record{End: time.Second, Outcome: o})
	}
	want := Figures{Served: 2, Rejected: 2, Late: 3, Failed: 1, Wasted: 2, P50: 1, P95: 1, P99: 1}
	if got := tally.figures(); got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
}

// busy returns a recording of two workers that take 10 ms each, with a burst.
func busy() *recorded.File {
	f := &recorded.File{Name: "busy.rec"}
	free := [2]time.Duration{}
	for i := range 1000 {
		at := time.Duration(i) * 6 * ms
		if i > 500 && i < 700 {
			at = 3000*ms + time.Duration(i-500)*3*ms
		}
		k := i % 2
		free[k] = max(at, free[k]) + 10*ms
		r := done(at, free[k])
		if i%100 == 0 {
			r.Outcome = recording.Ended(weir.Ignored)
		}
		f.Records = append(f.Records, r)
	}
	f.Sort()
	return f
}

// A seed gives the same figures again. A replay repeats failures.
func TestPlay(t *testing.T) {
	m := newModel(busy(), Options{Seeds: 4, Seed: 1})
	m.take(station.Station{Workers: 2})
	a, err := m.play(t.Context(), Policy{Limit: Limit{Name: "none"}}, 4)
	testrig.Must(t, err)
	b, err := m.play(t.Context(), Policy{Limit: Limit{Name: "none"}}, 4)
	testrig.Must(t, err)
	if want := m.happened.figures(); a.Median != b.Median || a.Median.Served != 990 || a.Median.Failed != 10 || !near95(a.Median.P95, want.P95) {
		t.Errorf("%+v\n%+v\n%+v", a.Median, b.Median, want)
	}
	limited, err := m.play(t.Context(), Policy{Limit: Limit{Name: "fixed", N: 2, Queue: new(0)}}, 4)
	testrig.Must(t, err)
	retried, err := m.play(t.Context(), Policy{Limit: Limit{Name: "fixed", N: 2, Queue: new(0)}, Retries: 1}, 4)
	testrig.Must(t, err)
	if limited.Median.Rejected < 50 || limited.Median.P99 > 0.0101 || retried.Median.Served <= limited.Median.Served {
		t.Errorf("%+v\n%+v", limited.Median, retried.Median)
	}
	r := &Report{File: "busy.rec", Requests: 1000, Length: 5, Before: &Limit{Name: "none"}, Happened: m.happened.figures(), happened: m.happened, Replayed: a, Holds: true, Outcomes: []Outcome{*limited, *retried}, Seeds: 4}
	var text, picture bytes.Buffer
	testrig.Must(t, r.Table(&text))
	for _, want := range []string{"1000 requests in 5s", "what happened", "the same, replayed", "limit 2, queue 0 ", "limit 2, queue 0, retries 100 %"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	testrig.Must(t, r.Draw(&picture, "png"))
	if _, err := png.Decode(&picture); err != nil {
		t.Error(err)
	}
	data, err := json.Marshal(r)
	testrig.Must(t, err)
	if !strings.Contains(string(data), `"limit":"none"`) || !strings.Contains(string(data), `"policy":"2, queue 0"`) {
		t.Errorf("%s", data)
	}
}

// A limit of a class keeps the others as they are. Requests that do not come are not played.
func TestPoliciesOfSome(t *testing.T) {
	f := busy()
	f.Classes = map[uint16]string{1: "some"}
	for i := range f.Records {
		f.Records[i].Class = uint16(i % 2)
	}
	m := newModel(f, Options{Seeds: 2, Seed: 1})
	m.take(station.Station{Workers: 2})
	all, err := m.play(t.Context(), Policy{Limit: Limit{Name: "fixed", N: 1, Queue: new(0)}}, 2)
	testrig.Must(t, err)
	some, err := m.play(t.Context(), Policy{Limit: Limit{Name: "fixed", N: 1, Queue: new(0)}, Class: "some"}, 2)
	testrig.Must(t, err)
	if a, s := all.Median.Rejected, some.Median.Rejected; s < 50 || s > 500 || a < 1.3*s || some.Policy != "1, queue 0 of some" {
		t.Errorf("%s: %v, of all %v", some.Policy, s, a)
	}
	m.without = make([]bool, len(m.calls))
	for i := range m.without {
		m.without[i] = i%2 == 0
	}
	half, err := m.play(t.Context(), Policy{Limit: Limit{Name: "none"}}, 2)
	testrig.Must(t, err)
	if h := half.Median; h.Served+h.Failed != 500 {
		t.Errorf("%+v", h)
	}
}

func near95(got, want float64) bool { return got > 0.9*want && got < 1.1*want }

// A class with more work that comes later makes no work slower.
func TestSlowdownIsOfAClass(t *testing.T) {
	var rs []recording.Record
	var all []station.Piece
	add := func(class uint16, at, work time.Duration) {
		rs = append(rs, recording.Record{Class: class})
		all = append(all, station.Piece{Work: work, Begin: at})
	}
	for i := range 5000 {
		at := time.Duration(i) * 20 * ms
		add(1, at, time.Duration(8+i%5)*ms)
		if i > 2500 && i%4 == 0 {
			add(2, at, time.Duration(400+i%200)*ms)
		}
	}
	if slow := slowdown(all, rs, 0, 100*time.Second); slow != nil {
		t.Errorf("%.2f", slow)
	}
	for i := range all {
		if all[i].Begin > 60*time.Second {
			all[i].Work *= 2
		}
	}
	if slow := slowdown(all, rs, 0, 100*time.Second); slow == nil || slow[epochs-1] < 1.8*slow[0] {
		t.Errorf("%.2f", slow)
	}
}
