package gate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// Of the units that are freed while a large request is first, every second one
// goes to the small ones behind it.
func TestNoHeadOfLineBlocking(t *testing.T) {
	s := play(t, 10, gate.Config{Queue: 99})
	for range 10 {
		s.arrive("a", 1, "admit")
	}
	s.arrive("large", 6, "wait")
	for _, who := range []string{"1", "2", "3", "4", "5", "6"} {
		s.arrive(who, 1, "wait")
	}
	s.leave(1).leave(1).leave(1, "1").leave(1).leave(1, "2").leave(1).leave(1, "3").leave(1).
		leave(1, "large").leave(1, "4").leave(1, "5").inflight(10)
}

// However many small ones come, a large one gets in: it waits for 2n units to
// be freed at most.
func TestStarvationOfBigRequests(t *testing.T) {
	for n := 1; n <= 50; n++ {
		s := play(t, 50, gate.Config{Queue: 999})
		for range 50 {
			s.arrive("a", 1, "admit")
		}
		s.arrive("large", n, "wait")
		freed := 0
		for admitted := false; !admitted; freed++ {
			if freed > 2*n {
				t.Fatalf("%d units: not in after %d were freed", n, freed)
			}
			s.arrive("small", 1, "wait")
			s.g.Leave(limit.Sample{}, gate.Request{N: 1})
			for a, ok := s.g.Next(0); ok; a, ok = s.g.Next(0) {
				admitted = admitted || a.Waiter == "large"
			}
		}
	}
}

func TestClaim(t *testing.T) {
	waiting := func(t *testing.T) *script { // with 3 of its 5 units kept, and one for others
		s := play(t, 8, gate.Config{Queue: 9, MaxWait: 50 * time.Second})
		for range 8 {
			s.arrive("a", 1, "admit")
		}
		return s.arrive("large", 5, "wait").leave(1).leave(1).leave(1).leave(1).inflight(4)
	}
	t.Run("the next in turn must fit into what is not kept", func(t *testing.T) {
		waiting(t).arrive("two", 2, "wait").arrive("one", 1, "wait").answers().leave(1, "large").leave(1).leave(1, "two").leave(1, "one")
	})
	t.Run("who has the claim may cancel", func(t *testing.T) {
		waiting(t).arrive("b", 3, "wait").arrive("c", 1, "wait").answers().cancel("large", true).answers("b", "c").inflight(8)
	})
	t.Run("it may be overdue", func(t *testing.T) {
		waiting(t).at(49).answers().deadline(50).at(50).answers("large overdue").deadline(-1)
	})
	t.Run("a limit that shrinks below it refuses it", func(t *testing.T) {
		waiting(t).limit(4).answers("large over_limit")
	})
	t.Run("a limit that grows lets it in", func(t *testing.T) {
		waiting(t).limit(9).answers("large").inflight(9)
	})
	t.Run("a higher priority takes what is kept", func(t *testing.T) {
		high := gate.Request{N: 4, Priority: 1}
		waiting(t).ask("high", high, "wait").answers("high").leave(1).leave(4, "large")
	})
	t.Run("and the claim, if it does not fit either", func(t *testing.T) {
		high := gate.Request{N: 6, Priority: 1}
		waiting(t).ask("high", high, "wait").answers().leave(1).leave(1, "high").leave(1).leave(1).
			leave(6, "large").inflight(5)
	})
	t.Run("a higher priority evicts it", func(t *testing.T) {
		s := waiting(t)
		s.configure(1, 0).ask("high", gate.Request{N: 5, Priority: 1}, "wait").answers("large queue_full").leave(1, "high")
	})
}

// A request that would not be done in time is refused on arrival, once the
// gate knows how fast the work goes.
func TestTooLateOnArrival(t *testing.T) {
	by := func(deadline int) gate.Request { return gate.Request{N: 1, Deadline: seconds(deadline)} }
	s := play(t, 1, gate.Config{Queue: 99}).arrive("a", 1, "admit").
		ask("nothing is learnt yet", by(1), "wait").cancel("nothing is learnt yet", true)
	for i := range 100 { // each takes a second, while a request waits
		s.at(i).arrive("b", 1, "wait").at(i+1).done(1, i, weir.Success, "b")
	}
	s.ask("one waits, one works", by(101), "too_late").ask("just in time", by(102), "wait").
		ask("behind it", by(102), "too_late").ask("three seconds", by(103), "wait").
		ask("higher priority", gate.Request{N: 1, Priority: 1, Deadline: seconds(102)}, "wait").
		ask("without a deadline", gate.Request{N: 1}, "wait").
		ask("long ago", by(3), "too_late")
	if st := s.g.Stats(); st.TooLate != 3 {
		t.Errorf("%+v", st)
	}
}

// What is idle time, and what is a rare exception, does not count.
func TestTooLateIsNotMisled(t *testing.T) {
	learnt := func(t *testing.T, cfg gate.Config) *script {
		s := play(t, 1, cfg).arrive("a", 1, "admit")
		for i := range 100 {
			s.at(i).arrive("b", 1, "wait").at(i+1).done(1, i, weir.Success, "b")
		}
		return s.at(101).done(1, 100, weir.Success).inflight(0)
	}
	inTime := gate.Request{N: 1, Deadline: seconds(5005)}
	t.Run("by idle time", func(t *testing.T) {
		learnt(t, gate.Config{Queue: 9}).arrive("a", 1, "admit").at(5000).done(1, 4999, weir.Success).
			arrive("a", 1, "admit").arrive("b", 1, "wait").ask("c", inTime, "wait")
	})
	t.Run("by a single slow one", func(t *testing.T) {
		learnt(t, gate.Config{Queue: 9}).arrive("a", 1, "admit").at(5000).done(1, 101, weir.Success).
			arrive("a", 1, "admit").arrive("b", 1, "wait").ask("c", inTime, "wait")
	})
	t.Run("by those whom it overtakes, where the newest goes first", func(t *testing.T) {
		s := learnt(t, gate.Config{Queue: 19, Discipline: gate.AdaptiveLIFO, Target: 9 * time.Second, Interval: 10 * time.Second}).
			at(5000).arrive("a", 1, "admit").arrive("old", 1, "wait").at(5009)
		for range 9 {
			s.arrive("b", 1, "wait")
		}
		in := gate.Request{N: 1, Deadline: seconds(5015)}
		s.ask("c", in, "too_late").at(5010)
		s.answers(append([]string{"old overdue"}, slices.Repeat([]string{"b overdue"}, 7)...)...)
		s.ask("c", in, "wait")
	})
	t.Run("and a large request that has the claim goes before it", func(t *testing.T) {
		s := learnt(t, gate.Config{Queue: 19}).limit(9).at(5000).arrive("a", 8, "admit").arrive("large", 9, "wait").answers()
		s.ask("c", inTime, "too_late").ask("c", gate.Request{N: 1, Deadline: seconds(5012)}, "wait")
	})
	t.Run("by those whom a guarantee lets it pass", func(t *testing.T) {
		s := learnt(t, gate.Config{Queue: 19, Partitions: []float64{0.5}}).at(5000).arrive("a", 1, "admit")
		for range 9 {
			s.arrive("b", 1, "wait")
		}
		s.ask("c", inTime, "too_late")
		inTime.Partition = 1
		s.ask("c", inTime, "wait")
	})
}

// done is the departure of n units of work that began at an instant.
func (s *script) done(n, start int, o weir.Outcome, answers ...string) *script {
	s.t.Helper()
	s.g.Leave(limit.Sample{Start: seconds(start), End: seconds(s.now), Outcome: o}, gate.Request{N: n})
	return s.answers(answers...)
}

// A request that would end too late does not start: it would be wasted work.
func TestTooLateAtItsTurn(t *testing.T) {
	by := func(deadline int) gate.Request { return gate.Request{N: 1, Deadline: seconds(deadline)} }
	t.Run("its deadline has passed", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").ask("b", by(5), "wait").arrive("c", 1, "wait").
			at(5).leave(1, "b too_late", "c")
	})
	t.Run("its work takes longer", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").arrive("b", 1, "wait").
			ask("c", by(25), "wait").ask("d", by(17), "wait").arrive("e", 1, "wait").
			at(10).done(1, 0, weir.Success, "b").at(16).done(1, 10, weir.Ignored, "c too_late", "d too_late", "e")
	})
	t.Run("the quicker work is the measure", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit")
		now := 0
		for i := range 200 { // one second, or twenty
			d := 1 + 19*(i%2)
			s.at(now).arrive("b", 1, "wait").at(now+d).done(1, now, weir.Success, "b")
			now += d
		}
		s.ask("c", by(now+100), "wait").at(now+95).leave(1, "c")
	})
}

// However wrong the estimates are, they mend themselves: when all waiters are
// refused, there is room, and a request that finds room is admitted without an estimate.
func TestEstimatesRecover(t *testing.T) {
	s := play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit")
	for i := range 20 { // a service that takes 100 s
		s.at(100*i).arrive("b", 1, "wait").at(100*i+100).done(1, 100*i, weir.Success, "b")
	}
	// Now it takes one, and each request has ten; two come every second.
	began, now := 2000, 2000
	waited := 0
	for refused := 0; waited < 100; now++ {
		if now > 2600 {
			t.Fatalf("nobody may wait after %d s, and %d refusals", now-began, refused)
		}
		s.at(now)
		for range 2 {
			r := gate.Request{N: 1, Deadline: seconds(now + 10)}
			switch v, _ := s.g.Enter(r); v {
			case gate.Admit:
				began = now
			case gate.Wait:
				if _, why := s.g.Join(seconds(now), r, "c"); why != 0 {
					refused++
				}
			}
		}
		s.at(now + 1)
		if s.g.Inflight() > 0 {
			s.g.Leave(limit.Sample{Start: seconds(began), End: seconds(now + 1), Outcome: weir.Success}, gate.Request{N: 1})
		}
		for a, ok := s.g.Next(seconds(now + 1)); ok; a, ok = s.g.Next(seconds(now + 1)) {
			if a.Reason == 0 {
				began = now + 1
				waited++
			}
		}
	}
}

func TestLendAndReturn(t *testing.T) {
	s := play(t, 10, gate.Config{Queue: 9}).arrive("a", 3, "admit")
	lend := func(g *gate.Gate[string], why string, want int, wantOK bool) {
		t.Helper()
		if n, ok := g.Lend(); n != want || ok != wantOK {
			t.Errorf("%s: lent %d, %v: want %d, %v", why, n, ok, want, wantOK)
		}
	}
	lend(s.g, "what is free", 7, true)
	s.inflight(10)
	s.g.Return(5, 4, 2) // four came, two of one unit left: two units are in use
	s.inflight(5)
	if st := s.g.Stats(); st.Admitted != 5 || st.Success != 2 {
		t.Errorf("%+v: want 5 admitted, 2 successes", st)
	}
	s.arrive("b", 6, "wait")
	lend(s.g, "somebody waits", 0, false)
	s.leave(2, "b")
	lend(s.g, "somebody waited: the next departure shows how fast", 0, false)
	s.arrive("c", 1, "admit").leave(1)
	lend(s.g, "what is free now", 1, true)
	s.g.Return(0, 1, 0)
	lend(s.g, "nothing is free: a credit all the same, to put units into", 0, true)
	s.g.Return(4, 0, 1) // the three units of a, and one more, left into the credit
	s.inflight(6).limit(3)
	lend(s.g, "more in flight than the limit", 0, false)
	lend(play(t, 10, gate.Config{Partitions: []float64{0.5}}).g, "partitions", 0, false)
	defer func() {
		if recover() == nil {
			t.Error("more comes back than is out: want a panic")
		}
	}()
	s.g.Return(7, 0, 0)
}
