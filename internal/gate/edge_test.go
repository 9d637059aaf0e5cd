package gate_test

import (
	"math"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

func (s *script) configure(queue int, maxWait time.Duration) *script {
	s.g.Configure(gate.Config{Queue: queue, MaxWait: maxWait})
	return s
}

// "If n units fit" is a comparison that must not overflow.
func TestHugeRequests(t *testing.T) {
	t.Run("beyond a small limit", func(t *testing.T) {
		play(t, 2, gate.Config{Queue: 9}).arrive("a", 1, "admit").
			arrive("huge", math.MaxInt, "over_limit").arrive("b", 1, "admit").
			arrive("huge", math.MaxInt, "over_limit").inflight(2)
	})
	t.Run("within a huge limit", func(t *testing.T) {
		play(t, math.MaxInt, gate.Config{Queue: 9}).
			arrive("a", 1, "admit").arrive("all", math.MaxInt, "wait").
			answers().leave(1, "all").inflight(math.MaxInt).
			arrive("b", 1, "wait").answers().leave(math.MaxInt, "b").inflight(1)
	})
	t.Run("far more in flight than the limit", func(t *testing.T) {
		play(t, math.MaxInt, gate.Config{Queue: 9}).arrive("all", math.MaxInt, "admit").
			limit(0).arrive("a", 1, "over_limit").
			limit(1).arrive("a", 1, "wait").leave(math.MaxInt-1).leave(1, "a").inflight(1)
	})
}

// A request for nothing takes no room, but it keeps to the limit and to its
// place all the same.
func TestZeroUnits(t *testing.T) {
	play(t, 0, gate.Config{}).arrive("none", 0, "admit").inflight(0)
	play(t, 2, gate.Config{Queue: 9}).arrive("a", 2, "admit").arrive("none", 0, "admit").
		limit(1).arrive("none", 0, "wait").
		leave(2, "none").inflight(0)
}

// An unbounded wait may also be spelt as a very long one. The instant of its
// end is not on the clock: there is none.
func TestDeadlineBeyondTheClock(t *testing.T) {
	play(t, 1, gate.Config{Queue: 9, MaxWait: math.MaxInt64}).
		at(10).arrive("a", 1, "admit").arrive("b", 1, "wait").deadline(-1).
		answers().
		configure(9, 5*time.Second).deadline(15).at(15).answers("b overdue")
}

func TestMaxWaitChangesLive(t *testing.T) {
	waiting := func(t *testing.T) *script {
		return play(t, 1, gate.Config{Queue: 9, MaxWait: 10 * time.Second}).arrive("a", 1, "admit").
			at(1).arrive("b", 1, "wait").at(2).arrive("c", 1, "wait").deadline(11).at(6)
	}
	t.Run("longer", func(t *testing.T) {
		waiting(t).configure(9, 20*time.Second).deadline(21).at(20).answers().at(21).answers("b overdue").deadline(22)
	})
	t.Run("unbounded", func(t *testing.T) {
		waiting(t).configure(9, 0).deadline(-1).at(1<<20).answers().leave(1, "b")
	})
	t.Run("shorter: overdue exactly from the new bound on", func(t *testing.T) {
		waiting(t).configure(9, 5*time.Second).deadline(6).answers("b overdue").deadline(7)
	})
	t.Run("shorter than all have waited: overdue at once, in order", func(t *testing.T) {
		waiting(t).configure(9, time.Second).answers("b overdue", "c overdue").deadline(-1)
	})
}

func TestQueueChangesLive(t *testing.T) {
	play(t, 1, gate.Config{Queue: 2}).arrive("a", 1, "admit").
		arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "queue_full").
		configure(0, 0).arrive("e", 1, "over_limit"). // no more requests may wait; the waiters keep their places
		leave(1, "b").
		configure(3, 0).arrive("f", 1, "wait").arrive("g", 1, "wait").arrive("h", 1, "queue_full").
		leave(1, "c").leave(1, "f").leave(1, "g").leave(1).inflight(0)
}

// With a Depth, as many wait as that many times the limit, whatever it is now.
func TestDepth(t *testing.T) {
	t.Run("the room moves with the limit", func(t *testing.T) {
		play(t, 2, gate.Config{Queue: 9, Depth: 1.5}).arrive("a", 1, "admit").arrive("b", 1, "admit").
			arrive("c", 1, "wait").arrive("d", 1, "wait").arrive("e", 1, "wait").arrive("f", 1, "queue_full").
			limit(1).answers().arrive("g", 1, "queue_full"). // two too many wait, and keep their places
			leave(1).leave(1, "c").arrive("h", 1, "queue_full").
			leave(1, "d").arrive("i", 1, "wait").arrive("j", 1, "queue_full").
			limit(2).answers("e").arrive("k", 1, "wait").arrive("l", 1, "wait").arrive("m", 1, "queue_full")
	})
	t.Run("no more than the queue", func(t *testing.T) {
		play(t, 2, gate.Config{Queue: 1, Depth: 3}).arrive("a", 2, "admit").arrive("b", 1, "wait").arrive("c", 1, "queue_full")
		play(t, 2, gate.Config{Depth: 3}).arrive("a", 2, "admit").arrive("b", 1, "over_limit")
	})
	t.Run("one at least", func(t *testing.T) {
		play(t, 2, gate.Config{Queue: 9, Depth: 0.1}).arrive("a", 2, "admit").arrive("b", 1, "wait").arrive("c", 1, "queue_full")
		play(t, 1, gate.Config{Queue: 9, Depth: 0.1}).arrive("a", 1, "admit").limit(0).
			arrive("none", 0, "wait").arrive("none", 0, "queue_full")
	})
	t.Run("rounded up", func(t *testing.T) {
		play(t, 3, gate.Config{Queue: 9, Depth: 0.5}).arrive("a", 3, "admit").
			arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "queue_full")
	})
	t.Run("depths that do not count", func(t *testing.T) {
		for _, depth := range []float64{0, -1, math.NaN(), math.Inf(1), math.MaxFloat64} {
			play(t, math.MaxInt, gate.Config{Queue: 2, Depth: depth}).arrive("a", math.MaxInt, "admit").
				arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "queue_full")
		}
	})
	t.Run("a better claim takes a place", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 9, Depth: 1}).arrive("a", 1, "admit").arrive("b", 1, "wait").
			ask("urgent", gate.Request{N: 1, Priority: 1}, "wait").answers("b queue_full").leave(1, "urgent")
	})
	t.Run("full", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 9, Depth: 2}).arrive("a", 1, "admit").arrive("b", 1, "wait")
		if s.g.Full() {
			t.Error("full with one of two places taken")
		}
		if s.arrive("c", 1, "wait"); !s.g.Full() {
			t.Error("not full with two of two places taken")
		}
		if s.limit(2); s.g.Full() {
			t.Error("full with two of four places taken")
		}
	})
}

// A waiter that is both overdue and larger than the limit is told that it waited.
func TestOverdueBeforeOverLimit(t *testing.T) {
	play(t, 3, gate.Config{Queue: 9, MaxWait: 5 * time.Second}).arrive("a", 1, "admit").
		arrive("b", 3, "wait").limit(2).at(5).answers("b overdue")
}

// A cancelled waiter in the middle leaves the order of the others as it was,
// and its deadline with none.
func TestCancelInTheMiddle(t *testing.T) {
	play(t, 1, gate.Config{Queue: 9, MaxWait: 9 * time.Second}).arrive("a", 1, "admit").
		at(1).arrive("b", 1, "wait").at(2).arrive("c", 1, "wait").at(3).arrive("d", 1, "wait").
		cancel("c", true).deadline(10).cancel("b", true).deadline(12).
		arrive("e", 1, "wait").leave(1, "d").leave(1, "e").deadline(-1).
		cancel("d", false).cancel("e", false)
}

func TestTicketOfAnotherGate(t *testing.T) {
	other := play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").
		arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "wait")
	s := play(t, 1, gate.Config{Queue: 9})
	if s.g.Cancel(0, other.tickets["d"]) {
		t.Error("a gate without a queue knows the ticket")
	}
	s.arrive("a", 1, "admit").arrive("b", 1, "wait")
	if s.g.Cancel(0, other.tickets["d"]) {
		t.Error("a gate with a shorter queue knows the ticket")
	}
	s.leave(1, "b")
}

// With a Brief wait, as many wait as will be done in that time, if that is more
// than by Depth.
func TestBrief(t *testing.T) {
	cfg := gate.Config{Queue: 9, Depth: 0.5, MinWait: 10 * time.Second}
	// takes is work that takes so long, after which two units are in flight.
	takes := func(s *script, d int) *script {
		for range 200 { // until nothing else is remembered
			s.now += d
			s.g.Leave(limit.Sample{Start: seconds(s.now - d), End: seconds(s.now), Outcome: weir.Success}, gate.Request{N: 1})
			s.arrive("next", 1, "admit")
		}
		return s
	}
	waits := func(s *script, n int) {
		t.Helper()
		for range n {
			s.arrive("waits", 1, "wait")
		}
		s.arrive("refused", 1, "queue_full")
	}
	full := func() *script { return play(t, 2, cfg).arrive("a", 1, "admit").arrive("b", 1, "admit") }
	t.Run("all of the queue, as long as nothing is known", func(t *testing.T) { waits(full(), 9) })
	t.Run("two at a time, each for 4 s", func(t *testing.T) { waits(takes(full(), 4), 5) })
	t.Run("no more than the queue", func(t *testing.T) { waits(takes(full(), 1), 9) })
	t.Run("no less than by Depth", func(t *testing.T) { waits(takes(full(), 100), 1) })
	t.Run("only with a Depth", func(t *testing.T) {
		cfg.Depth = 0
		waits(takes(full(), 100), 9)
	})
}

func TestStats(t *testing.T) {
	s := play(t, 2, gate.Config{Queue: 3, MaxWait: 5 * time.Second}).
		arrive("a", 1, "admit").arrive("b", 1, "admit").arrive("large", 3, "over_limit").
		arrive("c", 1, "wait").arrive("d", 2, "wait").arrive("e", 1, "wait").arrive("f", 1, "queue_full").
		cancel("e", true).
		at(2).leave(1, "c").
		at(5).answers("d overdue").
		arrive("g", 1, "wait")
	s.g.Leave(limit.Sample{Outcome: weir.Success}, gate.Request{N: 1})
	s.answers("g")
	s.g.Leave(limit.Sample{Outcome: weir.Dropped}, gate.Request{N: 1})
	s.arrive("h", 1, "admit").arrive("i", 1, "wait").g.Leave(limit.Sample{Outcome: weir.Dropped}, gate.Request{N: 1})
	got, want := s.g.Stats(), gate.Stats{Limit: 2, Inflight: 1, Waiting: 1,
		Admitted: 5, OverLimit: 1, QueueFull: 1, Overdue: 1, Cancelled: 1, Waited: 2 * time.Second, Success: 1, Dropped: 2, Ignored: 1}
	if got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
}

// A queue allocates only while it is longer than ever before.
func TestQueueReusesItsSlots(t *testing.T) {
	g := gate.New[int](limit.Fixed(1), gate.Config{Queue: 8})
	turn := func() {
		g.Enter(gate.Request{N: 1})
		for i := range 8 {
			g.Enter(gate.Request{N: 1})
			ticket, _ := g.Join(0, gate.Request{N: 1}, i)
			if i%3 == 0 {
				g.Cancel(0, ticket)
			}
		}
		for g.Inflight() > 0 {
			g.Leave(limit.Sample{}, gate.Request{N: 1})
			g.Next(0)
		}
	}
	turns := func() {
		for range 1000 {
			turn()
		}
	}
	if n := testing.AllocsPerRun(1, turns); n != 0 {
		t.Errorf("%v allocations: want none", n)
	}
}

// A cost that cannot be counted is a bug of the caller, and changes nothing.
func TestAdjustBeyondAllNumbers(t *testing.T) {
	s := play(t, 5, gate.Config{}).arrive("a", 1, "admit").arrive("b", 1, "admit")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("want a panic")
			}
		}()
		s.g.Adjust(gate.Request{N: 1}, math.MaxInt)
	}()
	s.inflight(2)
}

// A gate keeps no reference to a waiter that has left.
func TestForgetsWhoHasLeft(t *testing.T) {
	g := gate.New[*[64]byte](limit.Fixed(1), gate.Config{Queue: 9})
	g.Enter(gate.Request{N: 1})
	join := func() (gate.Ticket[*[64]byte], weak.Pointer[[64]byte]) {
		g.Enter(gate.Request{N: 1})
		who := new([64]byte)
		ticket, _ := g.Join(0, gate.Request{N: 1}, who)
		return ticket, weak.Make(who)
	}
	ticket, cancelled := join()
	_, admitted := join()
	_, refused := join()
	g.Cancel(0, ticket)
	g.Leave(limit.Sample{}, gate.Request{N: 1})
	g.Next(0)
	g.SetAlgorithm(limit.Fixed(0))
	g.Next(0)
	runtime.GC()
	for name, who := range map[string]weak.Pointer[[64]byte]{"cancelled": cancelled, "admitted": admitted, "refused": refused} {
		if who.Value() != nil {
			t.Errorf("the one that was %s is still held", name)
		}
	}
	runtime.KeepAlive(g)
}
