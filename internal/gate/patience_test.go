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
	return afterLeaving(t, gate.Config{Queue: 9}, gate.Request{N: 1})
}

// afterLeaving is impatient under other rules, where the callers that left sent such requests.
func afterLeaving(t *testing.T, cfg gate.Config, leaves gate.Request) *script {
	s := play(t, 1, cfg)
	for i := range 3 {
		at := 20 * i
		s.at(at).arrive("a", 1, "admit").at(at+4).ended(at, weir.Success)
		s.at(at+5).arrive("b", 1, "admit").ask("c", leaves, "wait").at(at+15).cancel("c", true).ended(at+5, weir.Dropped)
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

// When a request's turn comes, the usual work has to fit, and not only the quickest.
func TestUsualWorkFits(t *testing.T) {
	s := impatient(t).arrive("a", 1, "admit").at(401).ended(400, weir.Success) // the quickest takes one second
	s.at(410).arrive("a", 1, "admit").ask("b", gate.Request{N: 1}, "wait").ask("c", gate.Request{N: 1, Deadline: seconds(440)}, "wait").
		at(417).ended(410, weir.Dropped, "b too_late", "c")
}

// Refusals of what would be too late show that the queue does not keep up.
func TestTooLateBeginsASurge(t *testing.T) {
	cfg := gate.Config{Queue: 9, Discipline: gate.AdaptiveLIFO, Target: time.Minute, Interval: 5 * time.Second}
	for _, refused := range []int{0, 6} {
		s := afterLeaving(t, cfg, gate.Request{N: 1}).arrive("a", 1, "admit").arrive("b", 1, "wait").at(403).arrive("c", 1, "wait").
			at(404).ended(400, weir.Success, "b")
		for range refused {
			s.ask("x", gate.Request{N: 1}, "too_late")
		}
		s.arrive("d", 1, "wait").at(406).answers()
		want := "c"
		if refused > 0 {
			want = "d"
		}
		s.at(408).ended(404, weir.Success, want)
	}
}

// Callers teach the patience of their own kind alone, and only if it was not known when they leave.
func TestPatienceOfAKind(t *testing.T) {
	ordinary := gate.Request{N: 1}
	for name, tt := range map[string]struct {
		cfg          gate.Config
		leaves, asks gate.Request
		want         string
	}{
		"the same kind":        {gate.Config{Queue: 9}, ordinary, ordinary, "too_late"},
		"with a deadline":      {gate.Config{Queue: 9}, gate.Request{N: 1, Deadline: endless}, ordinary, "wait"},
		"another priority":     {gate.Config{Queue: 9}, gate.Request{N: 1, Priority: weir.Sheddable}, ordinary, "wait"},
		"priorities beyond":    {gate.Config{Queue: 9}, gate.Request{N: 1, Priority: -7}, gate.Request{N: 1, Priority: -8}, "too_late"},
		"another partition":    {gate.Config{Queue: 9, Partitions: []float64{0, 0}}, gate.Request{N: 1, Partition: 1}, gate.Request{N: 1, Partition: 2}, "wait"},
		"no partition":         {gate.Config{Queue: 9}, gate.Request{N: 1, Partition: 5}, ordinary, "too_late"},
		"they wait for a lock": {gate.Config{Queue: 9, WaitOnly: true}, ordinary, ordinary, "wait"},
	} {
		t.Run(name, func(t *testing.T) {
			afterLeaving(t, tt.cfg, tt.leaves).arrive("a", 1, "admit").arrive("b", 1, "wait").arrive("c", 1, "wait").ask("d", tt.asks, tt.want)
		})
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

// Work that succeeds just before its caller would have left counts as late, but not where all work
// takes so long.
func TestNearlyLateWork(t *testing.T) {
	for _, tt := range []struct {
		usual, last int
		want        weir.Outcome
	}{{4, 9, weir.Success}, {4, 10, outcome.Late}, {9, 10, outcome.Late}, {10, 10, weir.Success}} {
		alg := &recorder{}
		g := gate.New[int](alg, gate.Config{Queue: 9})
		work := func(seconds int, o weir.Outcome) {
			g.Enter(gate.Request{N: 1})
			g.Leave(limit.Sample{End: time.Duration(seconds) * time.Second, Outcome: o}, gate.Request{N: 1})
		}
		for range 20 {
			work(11, outcome.Gone)
			work(tt.usual, weir.Success)
		}
		work(tt.last, weir.Success)
		if alg.last != tt.want {
			t.Errorf("callers stay for 11 s, work takes %d s: the algorithm learns that %d s are %v, want %v", tt.usual, tt.last, alg.last, tt.want)
		}
		if s := g.Stats(); s.Dropped != 0 || s.Success != 21 {
			t.Errorf("%+v: want what the caller said", s)
		}
	}
}

// A recorder is a limit of one that keeps the last outcome.
type recorder struct{ last weir.Outcome }

func (r *recorder) Limit() int { return 1 }
func (r *recorder) Observe(s limit.Sample) limit.Cause {
	r.last = s.Outcome
	return limit.Kept
}
