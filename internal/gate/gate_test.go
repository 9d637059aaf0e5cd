package gate_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// A script plays events on a gate, in seconds, with waiters named by letters.
type script struct {
	t       *testing.T
	g       *gate.Gate[string]
	now     int
	tickets map[string]gate.Ticket[string]
}

func play(t *testing.T, most int, cfg gate.Config) *script {
	return &script{t, gate.New[string](limit.Fixed(most), cfg), 0, map[string]gate.Ticket[string]{}}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func (s *script) at(now int) *script { s.now = now; return s }

// arrive is a request with a name for n units; want is "admit", "wait" or a reason.
func (s *script) arrive(who string, n int, want string) *script {
	s.t.Helper()
	return s.ask(who, gate.Request{N: n, Deadline: endless}, want)
}

// ask is the arrival of any request.
func (s *script) ask(who string, r gate.Request, want string) *script {
	s.t.Helper()
	got := "admit"
	switch v, why := s.g.Enter(r); v {
	case gate.Wait:
		got = "wait"
		if s.tickets[who], why = s.g.Join(seconds(s.now), r, who); why != 0 {
			got = why.String()
		}
	case gate.Refuse:
		got = why.String()
	}
	if got != want {
		s.t.Errorf("at %d s, %s arrives for %+v: %s: want %s", s.now, who, r, got, want)
	}
	return s
}

// endless is the Deadline of a caller that is known to wait for as long as it takes.
const endless time.Duration = math.MaxInt64

// leave is the departure of n units, and answers come from Next.
func (s *script) leave(n int, answers ...string) *script {
	s.t.Helper()
	s.g.Leave(limit.Sample{End: seconds(s.now)}, gate.Request{N: n})
	return s.answers(answers...)
}

// answers are all that Next has, such as "a" or "b overdue".
func (s *script) answers(want ...string) *script {
	s.t.Helper()
	var got []string
	for {
		a, ok := s.g.Next(seconds(s.now))
		if !ok {
			break
		}
		answer := a.Waiter
		if a.Reason != 0 {
			answer += " " + a.Reason.String()
		}
		got = append(got, answer)
	}
	if len(got) != len(want) {
		s.t.Errorf("at %d s, answers %q: want %q", s.now, got, want)
		return s
	}
	for i := range got {
		if got[i] != want[i] {
			s.t.Errorf("at %d s, answers %q: want %q", s.now, got, want)
		}
	}
	return s
}

func (s *script) cancel(who string, want bool) *script {
	s.t.Helper()
	if got := s.g.Cancel(seconds(s.now), s.tickets[who]); got != want {
		s.t.Errorf("at %d s, %s cancels: %v: want %v", s.now, who, got, want)
	}
	return s
}

func (s *script) limit(n int) *script { s.g.SetAlgorithm(limit.Fixed(n)); return s }

// deadline is in seconds; -1 is none.
func (s *script) deadline(want int) *script {
	s.t.Helper()
	got, ok := s.g.Deadline()
	if ok != (want >= 0) || ok && got != seconds(want) {
		s.t.Errorf("at %d s, deadline %v, %v: want %d s", s.now, got, ok, want)
	}
	return s
}

func (s *script) inflight(want int) *script {
	s.t.Helper()
	if got := s.g.Inflight(); got != want {
		s.t.Errorf("at %d s, %d in flight: want %d", s.now, got, want)
	}
	return s
}

func TestAdmitsUpToTheLimit(t *testing.T) {
	play(t, 2, gate.Config{}).
		arrive("a", 1, "admit").arrive("b", 1, "admit").arrive("c", 1, "over_limit").
		leave(1).arrive("d", 1, "admit").inflight(2)
}

func TestQueuesFirstInFirstOut(t *testing.T) {
	play(t, 1, gate.Config{Queue: 2}).
		arrive("a", 1, "admit").arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "queue_full").
		leave(1, "b").arrive("e", 1, "wait").leave(1, "c").leave(1, "e").leave(1).inflight(0)
}

func TestOneThatMayNotWaitIsRefused(t *testing.T) {
	s := play(t, 1, gate.Config{Queue: 2}).arrive("a", 1, "admit")
	if v, why := s.g.Enter(gate.Request{N: 1, NoWait: true}); v != gate.Refuse || why != weir.OverLimit {
		t.Errorf("%v, %v: want a refusal, over_limit", v, why)
	}
}

func TestNobodyOvertakes(t *testing.T) {
	play(t, 3, gate.Config{Queue: 9}).
		arrive("a", 2, "admit").arrive("large", 2, "wait").
		arrive("small", 1, "wait"). // though one unit is free
		leave(2, "large", "small").inflight(3)
}

func TestSmallGoesOnceLargeIsGone(t *testing.T) {
	play(t, 3, gate.Config{Queue: 9}).
		arrive("a", 2, "admit").arrive("large", 2, "wait").arrive("small", 1, "wait").
		answers().cancel("large", true).answers("small").inflight(3)
}

func TestOverdueExactlyAtTheDeadline(t *testing.T) {
	play(t, 1, gate.Config{Queue: 9, MaxWait: 5 * time.Second}).deadline(-1).
		arrive("a", 1, "admit").deadline(-1).
		at(1).arrive("b", 1, "wait").deadline(6).
		at(2).arrive("c", 1, "wait").deadline(6).
		at(5).answers().
		at(6).answers("b overdue").deadline(7).
		at(7).leave(1, "c overdue"). // though there is room at that instant
		deadline(-1).inflight(0)
}

func TestUnboundedWait(t *testing.T) {
	play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 1, "wait").
		deadline(-1).at(1<<30).answers().leave(1, "b")
}

func TestLiveChanges(t *testing.T) {
	t.Run("a higher limit lets waiters in", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").
			arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "wait").
			limit(3).answers("b", "c").inflight(3)
	})
	t.Run("a lower limit lets work finish", func(t *testing.T) {
		play(t, 3, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 1, "admit").arrive("c", 1, "admit").
			limit(1).inflight(3).arrive("d", 1, "wait").leave(1).leave(1).leave(1, "d")
	})
	t.Run("a waiter that is larger than the whole limit is refused", func(t *testing.T) {
		play(t, 3, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 3, "wait").arrive("c", 1, "wait").
			limit(2).answers("b over_limit", "c")
	})
	t.Run("a limit of zero refuses all", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 1, "wait").
			limit(0).answers("b over_limit").arrive("c", 1, "over_limit")
	})
	t.Run("a shorter queue keeps those who wait", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 2}).arrive("a", 1, "admit").arrive("b", 1, "wait").arrive("c", 1, "wait")
		s.g.Configure(gate.Config{Queue: 1})
		s.arrive("d", 1, "queue_full").leave(1, "b").arrive("e", 1, "queue_full").leave(1, "c").arrive("f", 1, "wait")
	})
	t.Run("a shorter wait counts for those who wait", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 1, "wait").at(2)
		s.g.Configure(gate.Config{Queue: 9, MaxWait: 3 * time.Second})
		s.deadline(3).at(3).answers("b overdue")
	})
}

func TestUnits(t *testing.T) {
	play(t, 5, gate.Config{Queue: 9}).
		arrive("none", 0, "admit").inflight(0).
		arrive("more than the limit", 6, "over_limit").
		arrive("far more", math.MaxInt, "over_limit").
		arrive("all", 5, "admit").arrive("none", 0, "admit").leave(0).
		arrive("none, behind one", 1, "wait").arrive("none", 0, "wait").
		leave(5, "none, behind one", "none").inflight(1)
}

func TestAdjust(t *testing.T) {
	s := play(t, 5, gate.Config{Queue: 9}).arrive("a", 5, "admit").arrive("b", 3, "wait")
	s.g.Adjust(gate.Request{N: 5}, 2)
	s.answers("b").inflight(5)
	s.g.Adjust(gate.Request{N: 2}, 4)
	s.inflight(7).leave(4).leave(3).inflight(0)
}

func TestTimeGoesBackwards(t *testing.T) {
	play(t, 1, gate.Config{Queue: 9, MaxWait: 5 * time.Second}).arrive("a", 1, "admit").
		at(10).arrive("b", 1, "wait").
		at(3).arrive("c", 1, "wait").deadline(15). // c came at 10 s, not before b
		cancel("b", true).deadline(15).at(15).answers("c overdue").
		arrive("d", 1, "wait").at(19).answers().
		at(3).configure(9, 4*time.Second).answers("d overdue") // it is 19 s still
}

func TestTickets(t *testing.T) {
	s := play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 1, "wait").
		cancel("b", true).cancel("b", false).
		arrive("c", 1, "wait").cancel("b", false). // c is the same waiter as b, but not its ticket
		leave(1, "c").cancel("c", false)
	if s.g.Cancel(0, gate.Ticket[string]{}) {
		t.Error("the zero Ticket names nobody")
	}
}

func TestBrokenContract(t *testing.T) {
	panics := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: want a panic", name)
			}
		}()
		f()
	}
	s := play(t, 2, gate.Config{}).arrive("a", 1, "admit")
	panics("a negative request", func() { s.g.Enter(gate.Request{N: -1}) })
	panics("more leaves than has entered", func() { s.g.Leave(limit.Sample{}, gate.Request{N: 2}) })
	panics("a negative departure", func() { s.g.Leave(limit.Sample{}, gate.Request{N: -1}) })
	panics("a negative adjustment", func() { s.g.Adjust(gate.Request{N: 1}, -1) })
	s.inflight(1)
}

func TestLeaveTeaches(t *testing.T) {
	alg, err := limit.NewAIMD(limit.Config{Initial: 10}, 0)
	if err != nil {
		t.Fatal(err)
	}
	g := gate.New[string](alg, gate.Config{})
	g.Enter(gate.Request{N: 1, NoWait: true})
	if cause := g.Leave(limit.Sample{End: 1, Outcome: weir.Dropped}, gate.Request{N: 1}); cause != limit.Dropped || g.Limit() != 8 {
		t.Errorf("%v, limit %d: want dropped, 8", cause, g.Limit())
	}
}
