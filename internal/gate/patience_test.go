package gate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// ended is the departure of one unit of work that began at an instant.
func (s *script) ended(since int, o weir.Outcome, answers ...string) *script {
	s.t.Helper()
	s.g.Leave(limit.Sample{Start: seconds(since), End: seconds(s.now), Outcome: o}, gate.Request{N: 1})
	return s.answers(answers...)
}

// impatient is a gate for one unit, from which three callers have left after ten seconds each;
// work takes four.
func impatient(t *testing.T) *script {
	s := play(t, 1, gate.Config{Queue: 9})
	for i := range 3 {
		at := 20 * i
		s.at(at).arrive("a", 1, "admit").at(at+4).ended(at, weir.Success)
		s.at(at+5).arrive("b", 1, "admit").ask("c", gate.Request{N: 1}, "wait").at(at+15).cancel("c", true).ended(at+5, weir.Dropped)
	}
	s.at(100).arrive("a", 1, "admit")
	for i := range 50 {
		s.arrive("b", 1, "wait").at(104+4*i).ended(100+4*i, weir.Success, "b")
	}
	return s.at(304).ended(300, weir.Success).at(400)
}

// A request begins only if the usual work ends before its caller leaves, as far as is known.
func TestCallersLeave(t *testing.T) {
	s := impatient(t).arrive("a", 1, "admit").
		ask("b", gate.Request{N: 1}, "wait").
		ask("c", gate.Request{N: 1, Deadline: seconds(440)}, "wait"). // is known to stay
		at(407).ended(400, weir.Dropped, "b too_late", "c")
	if got := s.g.Stats(); got.TooLate != 1 || got.Cancelled != 3 {
		t.Errorf("%+v", got)
	}
}

// A request that would have to wait for too long is refused at once.
func TestHopelessWaits(t *testing.T) {
	impatient(t).arrive("a", 1, "admit").ask("b", gate.Request{N: 1}, "wait").ask("c", gate.Request{N: 1}, "too_late").
		at(404).ended(400, weir.Success, "b").ask("c", gate.Request{N: 1}, "wait")
}

// Work that is admitted at once and takes longer shows that callers have become patient.
func TestCallersStay(t *testing.T) {
	s := impatient(t)
	for i := range 6 {
		s.at(400+30*i).arrive("a", 1, "admit").at(420+30*i).ended(400+30*i, weir.Success)
	}
	s.at(600).arrive("a", 1, "admit").ask("b", gate.Request{N: 1}, "wait").at(609).ended(600, weir.Dropped, "b")
}

// The algorithm learns that work was late if its caller left when callers usually do; one that
// leaves earlier says nothing.
func TestLateWork(t *testing.T) {
	for _, tt := range []struct {
		rule        string
		came        weir.Outcome
		after       time.Duration
		known       bool
		want        weir.Outcome
		wantDropped uint64
	}{
		{"nothing is known of callers", outcome.Gone, 30 * time.Second, false, weir.Ignored, 0},
		{"the caller left early", outcome.Gone, 5 * time.Second, true, weir.Ignored, 0},
		{"the caller left early, and the work may go on", outcome.Left, 5 * time.Second, true, weir.Ignored, 0},
		{"the caller left as others do", outcome.Gone, 12 * time.Second, true, outcome.Late, 0},
		{"the caller left as others do, and the work may go on", outcome.Left, 10 * time.Second, true, outcome.TimedOut, 0},
		{"a deadline", outcome.Late, time.Second, true, outcome.Late, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			alg := &recorder{}
			g := gate.New[int](alg, gate.Config{Queue: 9})
			for i := range 9 * 3 {
				if !tt.known {
					break
				}
				g.Enter(gate.Request{N: 1})
				g.Leave(limit.Sample{End: 10 * time.Second, Outcome: []weir.Outcome{outcome.Gone, outcome.Gone, weir.Ignored}[i%3]}, gate.Request{N: 1})
			}
			g.Enter(gate.Request{N: 1})
			g.Leave(limit.Sample{End: tt.after, Outcome: tt.came}, gate.Request{N: 1})
			if alg.last != tt.want {
				t.Errorf("the algorithm learns %v: want %v", alg.last, tt.want)
			}
			if got := g.Stats().Dropped; got != tt.wantDropped {
				t.Errorf("%d dropped: want %d, as was said", got, tt.wantDropped)
			}
		})
	}
}

// A recorder is a limit of one that keeps the last outcome.
type recorder struct{ last weir.Outcome }

func (r *recorder) Limit() int { return 1 }
func (r *recorder) Observe(s limit.Sample) limit.Cause {
	r.last = s.Outcome
	return limit.Kept
}
