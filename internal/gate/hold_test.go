package gate_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// Abandoned work stays in flight until it could have ended.
func TestAbandonedWorkIsHeld(t *testing.T) {
	learnt := func(t *testing.T) *script { // that work takes ten seconds
		return play(t, 3, gate.Config{Queue: 9}).arrive("a", 1, "admit").at(10).done(1, 0, weir.Success)
	}
	held := func(s *script, units int, abandoned uint64) {
		t.Helper()
		if st := s.g.Stats(); st.Held != units || st.Abandoned != abandoned {
			t.Errorf("%+v: want %d held, %d abandoned", st, units, abandoned)
		}
	}
	t.Run("until the learnt time has passed since it began", func(t *testing.T) {
		s := learnt(t).arrive("b", 2, "admit").arrive("c", 1, "admit").arrive("d", 2, "wait").
			at(12).done(2, 10, outcome.TimedOut).inflight(3).deadline(20)
		held(s, 2, 1)
		s.at(19).answers().at(20).answers("d").inflight(3).deadline(-1)
		held(s, 0, 1)
	})
	t.Run("though nobody waits", func(t *testing.T) {
		learnt(t).arrive("b", 3, "admit").done(3, 10, outcome.Left).deadline(20).arrive("c", 3, "wait").at(20).answers("c")
	})
	t.Run("each for itself", func(t *testing.T) {
		s := learnt(t).arrive("b", 1, "admit").at(13).arrive("c", 1, "admit").at(15).arrive("d", 1, "admit").
			done(1, 15, outcome.Left).done(1, 10, outcome.TimedOut).done(1, 13, outcome.Left).deadline(20)
		held(s, 3, 3)
		s.at(20).answers().inflight(2).deadline(23).at(24).answers().inflight(1).deadline(25).at(99).answers().inflight(0)
	})
	t.Run("in order of their ends, however many", func(t *testing.T) {
		s := learnt(t).limit(1000)
		for range 100 {
			s.arrive("a", 1, "admit").done(1, 0, weir.Success)
		}
		for i := range 100 {
			s.arrive("b", 1, "admit").at(10).done(1, 10-(i*37)%8, outcome.Left) // ends a little after 13 s to 20 s
		}
		for now := 10; now < 20; now++ {
			if want, got := 100-max(now-13, 0)*100/8, s.at(now).answers().g.Inflight(); got < want-2 || got > want+2 {
				t.Errorf("%d in flight at %d s: want about %d", got, now, want)
			}
		}
		s.at(21).answers().inflight(0)
	})
	t.Run("for twice the longest usual time, if it has taken longer than any before", func(t *testing.T) {
		learnt(t).arrive("b", 1, "admit").at(22).done(1, 10, outcome.TimedOut).inflight(1).deadline(30)
	})
	t.Run("not if it has taken longer than that", func(t *testing.T) {
		learnt(t).arrive("b", 2, "admit").at(30).done(1, 10, outcome.Left).done(1, 10, outcome.TimedOut).inflight(0).deadline(-1)
	})
	t.Run("not if nothing is learnt", func(t *testing.T) {
		play(t, 1, gate.Config{}).arrive("b", 1, "admit").at(1).done(1, 0, outcome.TimedOut).inflight(0)
	})
	t.Run("not if it has ended", func(t *testing.T) {
		learnt(t).arrive("b", 1, "admit").done(1, 10, weir.Dropped).arrive("c", 1, "admit").done(1, 10, weir.Ignored).inflight(0)
	})
	t.Run("what is held cannot leave again", func(t *testing.T) {
		s := learnt(t).arrive("b", 1, "admit").done(1, 10, outcome.Left)
		defer func() {
			if recover() == nil {
				t.Error("want a panic")
			}
		}()
		s.leave(1)
	})
	t.Run("the algorithm is told at once, and the outcomes are counted", func(t *testing.T) {
		alg, err := limit.NewAIMD(limit.Config{Initial: 10}, 0)
		if err != nil {
			t.Fatal(err)
		}
		g := gate.New[string](alg, gate.Config{})
		for _, o := range []weir.Outcome{weir.Success, weir.Dropped, outcome.TimedOut, outcome.Late, weir.Ignored, outcome.Left} {
			g.Enter(gate.Request{N: 1})
			g.Leave(limit.Sample{End: 5, Outcome: o}, gate.Request{N: 1})
		}
		st := g.Stats()
		if st.Success != 1 || st.Dropped != 3 || st.Ignored != 2 || st.Abandoned != 2 {
			t.Errorf("%+v", st)
		}
		if g.Limit() >= 10 {
			t.Errorf("limit %d: want a decrease", g.Limit())
		}
	})
}

// lognormal is a service time with a mean of 50 ms.
func lognormal(rng *rand.Rand, cv float64) time.Duration {
	s2 := math.Log(1 + cv*cv)
	return time.Duration(50e6 * math.Exp(math.Sqrt(s2)*rng.NormFloat64()-s2/2))
}

// After a thousand successes and any one other outcome, of work of any age, the
// units are free again within twice the 99th percentile of the successes.
func TestNoOutcomeHoldsForLong(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, cv := range []float64{0, 0.5, 1, 2} {
		for o := weir.Ignored; o <= outcome.Late; o++ {
			for _, age := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second, 10 * time.Minute} {
				g := gate.New[int](limit.Fixed(1), gate.Config{})
				var all []time.Duration
				now := time.Duration(0)
				work := func(o weir.Outcome, took time.Duration) {
					t.Helper()
					if v, why := g.Enter(gate.Request{N: 1}); v != gate.Admit {
						t.Fatalf("cv %v, %v after %v: %v", cv, o, age, why)
					}
					now += took
					g.Leave(limit.Sample{Start: now - took, End: now, Outcome: o}, gate.Request{N: 1})
					g.Next(now)
				}
				for range 1000 {
					took := lognormal(rng, cv)
					all = append(all, took)
					work(weir.Success, took)
				}
				slices.Sort(all)
				work(o, age)
				at, held := g.Deadline()
				// The estimate is of a few samples: the gate remembers a few hundred.
				if most := 2 * all[len(all)-4]; held && at > now-age+most {
					t.Errorf("cv %v, %v after %v: held for %v after its start: want at most %v", cv, o, age, at-now+age, most)
				}
				if held {
					now = at
					g.Next(now)
				}
				work(weir.Success, 1)
			}
		}
	}
}

// One caller that waits for ten minutes says nothing about the others.
func TestALongTimeOutTeachesNothing(t *testing.T) {
	g := gate.New[int](limit.Fixed(20), gate.Config{})
	s := time.Second
	for i := range 100 {
		g.Enter(gate.Request{N: 1})
		g.Leave(limit.Sample{Start: time.Duration(i) * s, End: time.Duration(i+1) * s, Outcome: weir.Success}, gate.Request{N: 1})
	}
	g.Enter(gate.Request{N: 1})
	g.Leave(limit.Sample{Start: 100 * s, End: 700 * s, Outcome: outcome.TimedOut}, gate.Request{N: 1})
	for range 19 {
		g.Enter(gate.Request{N: 1})
		g.Leave(limit.Sample{Start: 700 * s, End: 700*s + s/10, Outcome: outcome.Left}, gate.Request{N: 1})
	}
	if st := g.Stats(); st.Held != 19 {
		t.Errorf("%+v: want 19 held", st)
	}
	g.Next(701*s + s/20)
	if st := g.Stats(); st.Inflight != 0 {
		t.Errorf("%+v: want nothing in flight, one service time after their start", st)
	}
}

// What is held is the expected rest of the work: on average, as many units are in
// flight as work goes on, at whatever age its callers leave.
func TestHoldsAreRightOnAverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, cv := range []float64{0.5, 1, 2} {
		for _, leave := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
			g := gate.New[int](limit.Fixed(1), gate.Config{})
			now, real, held := time.Duration(0), time.Duration(0), time.Duration(0)
			for range 20_000 {
				took := lognormal(rng, cv)
				g.Enter(gate.Request{N: 1})
				if took <= leave || rng.IntN(2) == 0 { // every second caller is patient
					now += took
					g.Leave(limit.Sample{Start: now - took, End: now, Outcome: weir.Success}, gate.Request{N: 1})
					continue
				}
				now += leave
				g.Leave(limit.Sample{Start: now - leave, End: now, Outcome: outcome.Left}, gate.Request{N: 1})
				real += took - leave
				if at, ok := g.Deadline(); ok {
					held += at - now
					now = at
					g.Next(now)
				}
			}
			if ratio := held.Seconds() / real.Seconds(); ratio < 0.85 || ratio > 1.2 {
				t.Errorf("cv %v, callers leave after %v: held for %.2f of the time that work goes on", cv, leave, ratio)
			}
		}
	}
}

// A hold that was estimated while work was slow ends sooner once it is fast.
func TestHoldsShortenWhenWorkGetsFaster(t *testing.T) {
	g := gate.New[int](limit.Fixed(20), gate.Config{})
	s := time.Second
	now := time.Duration(0)
	success := func(took time.Duration) {
		g.Enter(gate.Request{N: 1})
		now += took
		g.Leave(limit.Sample{Start: now - took, End: now, Outcome: weir.Success}, gate.Request{N: 1})
		g.Next(now)
	}
	for range 100 {
		success(100 * s)
	}
	for range 10 {
		g.Enter(gate.Request{N: 1})
	}
	for i := range 10 {
		g.Leave(limit.Sample{Start: now, End: now + time.Duration(i)*s, Outcome: outcome.TimedOut}, gate.Request{N: 1})
	}
	began := now
	for range 2000 {
		success(s / 100)
	}
	if st := g.Stats(); st.Held != 0 {
		t.Errorf("%+v: want no hold after %v, now that work takes 10 ms", st, now-began)
	}
}

// While nothing succeeds, what is known of successes is not forgotten, and abandoned
// work is held for longer: for eight times the 99th percentile at most.
func TestHoldsAreLongerWhileNothingSucceeds(t *testing.T) {
	const took, left = 100 * time.Millisecond, 150 * time.Millisecond
	g := gate.New[int](limit.Fixed(1), gate.Config{})
	now := time.Duration(0)
	// work returns how long its unit was in use.
	work := func(o weir.Outcome, took time.Duration) time.Duration {
		t.Helper()
		start := now
		if v, why := g.Enter(gate.Request{N: 1}); v != gate.Admit {
			t.Fatal(why)
		}
		now += took
		g.Leave(limit.Sample{Start: start, End: now, Outcome: o}, gate.Request{N: 1})
		if at, held := g.Deadline(); held {
			now = at
		}
		g.Next(now)
		return now - start
	}
	for range 1000 {
		work(weir.Success, took)
	}
	for i := range 10_000 {
		most := 2 * took << min((i+1)/128, 2)
		if d := work(outcome.TimedOut, left); d < left || d > most+most/100 {
			t.Fatalf("after %d: in use for %v: want %v to %v", i, d, left, most)
		} else if i > 1000 && d < 7*took {
			t.Fatalf("after %d: in use for %v: want nearly %v", i, d, most)
		}
	}
	work(weir.Success, took)
	if d := work(outcome.TimedOut, left); d > 2*took+took/50 {
		t.Errorf("after a success: in use for %v: want %v at most", d, 2*took)
	}
}
