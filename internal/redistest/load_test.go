package redistest_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

func TestExcess(t *testing.T) {
	const ms = time.Millisecond
	at := func(instants ...time.Duration) (a redistest.Answers) {
		for _, i := range instants {
			a = append(a, redistest.Answer{Asked: i, Granted: true}, redistest.Answer{Asked: i})
		}
		return a
	}
	for i, tt := range []struct {
		answers redistest.Answers
		want    float64
	}{
		{nil, 0},
		{at(0), 1},
		{at(0, 0, 0), 3},
		{at(0, 100*ms, 200*ms, 300*ms), 1}, // ten a second
		{at(0, 50*ms, 100*ms, 150*ms), 2.5},
		{at(0, 0, 1000*ms, 1000*ms, 1000*ms), 3},
		{at(0, 0, 0, 100*ms, 150*ms), 3.5},
		{redistest.Answers{{Asked: 0, Took: 100 * ms, Granted: true}, {Asked: 100 * ms, Granted: true}}, 1}, // perhaps a tenth of a second apart
	} {
		if got := tt.answers.Excess(10); got < tt.want-0.001 || got > tt.want+0.001 {
			t.Errorf("%d: an excess of %v, want %v", i, got, tt.want)
		}
	}
	if d := at(0, 0).Took(1); d != 0 {
		t.Error(d)
	}
}

func TestCovered(t *testing.T) {
	a := redistest.Answers{{Asked: 70, Took: 5}, {Asked: 0, Took: 10}, {Asked: 5, Took: 15}, {Asked: 25, Took: 5}, {Asked: 6, Took: 1}}
	if got := a.Covered(10); got != 35 {
		t.Errorf("%d, want 30 and 5", got)
	}
}

func TestApart(t *testing.T) {
	var a redistest.Answers
	for _, answer := range []struct {
		caller int
		at     time.Duration
		step   string
	}{
		{0, 0, "a"}, {1, 10, "b"}, {3, 15, "b"}, {2, 20, "b"}, {2, 50, "b"}, {0, 70, "a"}, {1, 75, "a"}, {1, 90, "b"}, {1, 91, "a"},
	} {
		a = append(a, redistest.Answer{Caller: answer.caller, Asked: answer.at, Step: answer.step})
	}
	if got := a.Apart("a", 2); got != 16 {
		t.Errorf("%d, want 10 and 5 and 1", got)
	}
}
