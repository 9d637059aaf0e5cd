package gate_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// slowTarget and slowInterval are parameters for scripts in seconds.
const slowTarget, slowInterval = 2 * time.Second, 10 * time.Second

func TestCoDel(t *testing.T) {
	cfg := gate.Config{Queue: 9, Discipline: gate.CoDel, Target: slowTarget, Interval: slowInterval}
	standing := func(t *testing.T) *script { // above the target for an interval
		return play(t, 1, cfg).arrive("a", 1, "admit").arrive("b", 1, "wait").arrive("c", 1, "wait").
			arrive("d", 1, "wait").arrive("e", 1, "wait").arrive("f", 1, "wait").at(2).leave(1, "b")
	}
	t.Run("a queue that stands is shortened, and who is dropped is told at once", func(t *testing.T) {
		standing(t).at(11).leave(1, "c").at(12).leave(1, "d overdue", "e")
	})
	t.Run("a short wait is left alone", func(t *testing.T) {
		s := play(t, 1, cfg).arrive("a", 1, "admit")
		for i := range 100 {
			s.at(i).arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "wait").
				at(i+1).leave(1, "b").leave(1, "c").leave(1, "d")
		}
	})
	t.Run("work that hangs strands nobody", func(t *testing.T) {
		standing(t).deadline(12). // nothing was dequeued since 2 s
						at(11).answers().at(12).answers("c overdue").
						at(21).answers().at(22).answers("d overdue").deadline(-1).
						leave(1, "e").leave(1, "f").leave(1)
	})
}

// bohde/codel counts a cancel and a full queue as drops of the law. Here they
// leave it alone: the first drop comes when it would have come.
func TestCancelAndQueueFullAreNoDropsOfCoDel(t *testing.T) {
	s := play(t, 1, gate.Config{Queue: 6, Discipline: gate.CoDel, Target: slowTarget, Interval: slowInterval}).arrive("a", 1, "admit")
	for _, who := range []string{"b", "c", "d", "e", "f", "g"} {
		s.arrive(who, 1, "wait")
	}
	for range 50 {
		s.arrive("x", 1, "queue_full").cancel("g", true).answers().arrive("g", 1, "wait")
	}
	s.at(3).leave(1, "b").at(12).leave(1, "c").at(13).leave(1, "d overdue", "e")
}

// After an empty queue the law starts over: no burst of drops after idling.
func TestNoDropBurstAfterIdle(t *testing.T) {
	s := play(t, 1, gate.Config{Queue: 9, Discipline: gate.CoDel, Target: slowTarget, Interval: slowInterval}).arrive("a", 1, "admit")
	for i, who := range []string{"b", "c", "d", "e", "f", "g"} {
		s.at(i).arrive(who, 1, "wait")
	}
	s.at(6).leave(1, "b").at(16).leave(1, "c overdue", "d").cancel("e", true).cancel("f", true).cancel("g", true).at(20).leave(1)
	s.at(9999).arrive("a", 1, "admit").arrive("b", 1, "wait").arrive("c", 1, "wait").arrive("d", 1, "wait").
		at(10003).leave(1, "b").leave(1, "c").leave(1, "d")
}

func TestAdaptiveLIFO(t *testing.T) {
	cfg := gate.Config{Queue: 9, Discipline: gate.AdaptiveLIFO, Target: slowTarget, Interval: slowInterval}
	t.Run("first in, first out, as long as the queue is young", func(t *testing.T) {
		play(t, 1, cfg).arrive("a", 1, "admit").arrive("b", 1, "wait").at(4).arrive("c", 1, "wait").deadline(10).
			at(9).leave(1, "b").leave(1, "c")
	})
	t.Run("then newest first, and the old end is overdue after the target", func(t *testing.T) {
		play(t, 1, cfg).arrive("a", 1, "admit").arrive("b", 1, "wait").
			at(7).arrive("c", 1, "wait").at(9).arrive("d", 1, "wait").at(10).arrive("e", 1, "wait").
			answers("b overdue", "c overdue").deadline(11).at(11).answers("d overdue").deadline(-1).leave(1, "e")
	})
	t.Run("but the last is not: it is for the next unit that is freed", func(t *testing.T) {
		play(t, 1, cfg).arrive("a", 1, "admit").arrive("b", 1, "wait").deadline(-1).at(99).answers().leave(1, "b")
	})
	t.Run("a queue that was worked off is young again", func(t *testing.T) {
		play(t, 1, cfg).arrive("a", 1, "admit").arrive("b", 1, "wait").at(12).leave(1, "b").
			arrive("c", 1, "wait").at(13).arrive("d", 1, "wait").deadline(22).leave(1, "c")
	})
	t.Run("one that was kept short by dropping is not, for an interval", func(t *testing.T) {
		play(t, 1, cfg).arrive("a", 1, "admit").arrive("b", 1, "wait").at(9).arrive("c", 1, "wait").
			at(10).answers("b overdue").leave(1, "c").
			at(19).arrive("d", 1, "wait").arrive("e", 1, "wait").leave(1, "e").leave(1, "d").
			at(20).arrive("f", 1, "wait").arrive("g", 1, "wait").leave(1, "f")
	})
}

// The oldest is not always the first, but the bound holds for all.
func TestMaxWaitIsForAll(t *testing.T) {
	play(t, 1, gate.Config{Queue: 9, MaxWait: 5 * time.Second}).arrive("a", 1, "admit").
		ask("low", gate.Request{N: 1, Priority: weir.Sheddable}, "wait").
		at(1).ask("high", gate.Request{N: 1, Priority: weir.CriticalPlus}, "wait").deadline(5).
		at(5).answers("low overdue").deadline(6).at(6).answers("high overdue").deadline(-1)
}

func TestPriority(t *testing.T) {
	low, mid, high := gate.Request{N: 1, Priority: -2}, gate.Request{N: 1}, gate.Request{N: 1, Priority: 1}
	t.Run("higher first, and in order within", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").
			ask("l1", low, "wait").ask("m1", mid, "wait").ask("l2", low, "wait").ask("h1", high, "wait").
			ask("m2", mid, "wait").ask("h2", high, "wait").
			leave(1, "h1").leave(1, "h2").leave(1, "m1").leave(1, "m2").leave(1, "l1").leave(1, "l2")
	})
	t.Run("a full queue sheds the lowest, its newest first, and tells it", func(t *testing.T) {
		play(t, 1, gate.Config{Queue: 3}).arrive("a", 1, "admit").
			ask("l1", low, "wait").ask("m1", mid, "wait").ask("l2", low, "wait").
			ask("l3", low, "queue_full").
			ask("m2", mid, "wait").answers("l2 queue_full").
			ask("h1", high, "wait").answers("l1 queue_full").
			ask("m3", mid, "queue_full").
			ask("h2", high, "wait").answers("m2 queue_full").
			leave(1, "h1").leave(1, "h2").leave(1, "m1")
	})
	t.Run("tenants of equal length swap no places", func(t *testing.T) {
		one, two := gate.Request{N: 1, Tenant: 1}, gate.Request{N: 1, Tenant: 2}
		play(t, 1, gate.Config{Queue: 3, FairQueues: 64}).arrive("a", 1, "admit").
			ask("1", one, "wait").ask("1", one, "wait").ask("1'", one, "wait").
			ask("2", two, "wait").answers("1' queue_full").ask("2", two, "queue_full").ask("1", one, "queue_full")
	})
	t.Run("of two partitions alike, the one with more in the queue gives way", func(t *testing.T) {
		first, second := gate.Request{N: 1, Partition: 1}, gate.Request{N: 1, Partition: 2}
		play(t, 1, gate.Config{Queue: 4, Partitions: []float64{0, 0}}).arrive("a", 1, "admit").
			ask("1", first, "wait").ask("2", second, "wait").ask("2", second, "wait").ask("2'", second, "wait").
			ask("h", high, "wait").answers("2' queue_full")
	})
	t.Run("it is the one that rose who goes, though another tenant's turn it is", func(t *testing.T) {
		one, two := gate.Request{N: 1, Priority: -2, Tenant: 1}, gate.Request{N: 1, Priority: -2, Tenant: 2}
		play(t, 1, gate.Config{Queue: 9, Aging: 10 * time.Second, FairQueues: 64}).arrive("a", 1, "admit").
			ask("w", one, "wait").leave(1, "w").at(1).ask("x", one, "wait").at(2).ask("y", two, "wait").
			at(21).ask("h", mid, "wait").leave(1, "x").leave(1, "h").leave(1, "y")
	})
	t.Run("an evicted waiter that cancels before it is told has cancelled", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 1}).arrive("a", 1, "admit").ask("l", low, "wait").ask("m", mid, "wait")
		if at, ok := s.g.Deadline(); !ok || at > 0 {
			t.Errorf("deadline %v, %v: want now", at, ok)
		}
		s.cancel("l", true).cancel("l", false).answers().leave(1, "m")
		if st := s.g.Stats(); st.Evicted != 0 || st.Cancelled != 1 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("without aging the low may starve", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 9}).arrive("a", 1, "admit").ask("l", low, "wait")
		for i := range 100 {
			s.at(i).ask("h", high, "wait").leave(1, "h")
		}
	})
	t.Run("with aging each rises in time, and goes itself", func(t *testing.T) {
		s := play(t, 1, gate.Config{Queue: 9, Aging: 10 * time.Second}).arrive("a", 1, "admit").
			ask("l1", low, "wait").at(1).ask("l2", low, "wait")
		for i := 2; i < 30; i++ {
			s.at(i).ask("h", high, "wait").leave(1, "h")
		}
		s.at(30).ask("h", high, "wait").leave(1, "l1").leave(1, "h").
			at(31).ask("h", high, "wait").leave(1, "l2").leave(1, "h")
	})
}

// served counts the requests that a gate of one unit admits, while the queue is kept full
// of requests: as many of each tenant as it wants to have waiting.
func served(t *testing.T, cfg gate.Config, want map[uint64]int, weight map[uint64]int, units map[uint64]int, turns int) map[uint64]int {
	t.Helper()
	g := gate.New[uint64](limit.Fixed(10), cfg)
	tenants := make([]uint64, 0, len(want))
	for tenant := range want {
		tenants = append(tenants, tenant)
	}
	slices.Sort(tenants)
	got, waiting := map[uint64]int{}, map[uint64]int{}
	g.Enter(gate.Request{N: 10})
	holds := []gate.Request{{N: 10}}
	for range turns {
		for _, tenant := range tenants {
			r := gate.Request{N: max(units[tenant], 1), Tenant: tenant, Weight: weight[tenant]}
			for range want[tenant] {
				if waiting[tenant] >= want[tenant] {
					break
				}
				if v, _ := g.Enter(r); v != gate.Wait {
					break
				}
				g.Join(0, r, tenant)
				waiting[tenant]++
				for a, ok := g.Next(0); ok; a, ok = g.Next(0) {
					waiting[a.Waiter]--
				}
			}
		}
		g.Leave(limit.Sample{Outcome: weir.Success}, holds[0])
		holds = holds[1:]
		for a, ok := g.Next(0); ok; a, ok = g.Next(0) {
			waiting[a.Waiter]--
			if a.Reason == 0 {
				r := gate.Request{N: max(units[a.Waiter], 1)}
				holds = append(holds, r)
				got[a.Waiter] += r.N
			}
		}
	}
	return got
}

// One tenant at 100 times the others' load leaves each of them at least 95 %
// of its fair share.
func TestFairShare(t *testing.T) {
	const others, turns = 9, 20000
	for run := range uint64(20) {
		cfg := gate.Config{Queue: 300, FairQueues: 64}
		first := run * 100 // so that each run deals other hands
		want := map[uint64]int{0xe1e + first: 200}
		for tenant := range uint64(others) {
			want[first+tenant] = 2
		}
		got := served(t, cfg, want, nil, nil, turns)
		total := 0
		for _, n := range got {
			total += n
		}
		fair := float64(total) / (others + 1)
		for tenant := range uint64(others) {
			if share := float64(got[first+tenant]) / fair; share < 0.95 {
				t.Errorf("run %d: tenant %d has %.0f %% of its fair share", run, tenant, 100*share)
			}
		}
	}
}

// The same when the elephant has filled the queue: its newest is evicted.
func TestFairShareOfAFullQueue(t *testing.T) {
	cfg := gate.Config{Queue: 40, FairQueues: 64}
	got := served(t, cfg, map[uint64]int{1: 1000, 2: 5, 3: 5, 4: 5}, nil, nil, 10000)
	for tenant, n := range got {
		if n < 2400 {
			t.Errorf("tenant %d has %d of 2500: %v", tenant, n, got)
		}
	}
}

func TestWeightsAndUnits(t *testing.T) {
	cfg := gate.Config{Queue: 100, FairQueues: 64}
	t.Run("a weight of three has three times as much", func(t *testing.T) {
		got := served(t, cfg, map[uint64]int{1: 20, 2: 20}, map[uint64]int{1: 3}, nil, 8000)
		if ratio := float64(got[1]) / float64(got[2]); ratio < 2.95 || ratio > 3.05 {
			t.Errorf("%v: want 3 to 1", got)
		}
	})
	t.Run("what counts is units", func(t *testing.T) {
		got := served(t, cfg, map[uint64]int{1: 20, 2: 20}, nil, map[uint64]int{1: 5}, 8000)
		if ratio := float64(got[1]) / float64(got[2]); ratio < 0.95 || ratio > 1.05 {
			t.Errorf("%v: want as much", got)
		}
	})
}

func TestNobodySavesUpWhileAway(t *testing.T) {
	cfg := gate.Config{Queue: 99, FairQueues: 64}
	s := play(t, 1, cfg).arrive("a", 1, "admit")
	one, two := gate.Request{N: 1, Tenant: 1}, gate.Request{N: 1, Tenant: 2}
	for range 20 {
		s.ask("one", one, "wait")
	}
	for range 10 {
		s.leave(1, "one")
	}
	for range 5 {
		s.ask("two", two, "wait")
	}
	s.leave(1, "two").leave(1, "one").leave(1, "two").leave(1, "one")

	// One that comes back is a newcomer, behind another of the same start.
	s = play(t, 1, cfg).arrive("a", 1, "admit")
	three := gate.Request{N: 1, Tenant: 3}
	for range 20 {
		s.ask("one", one, "wait")
	}
	for range 10 {
		s.leave(1, "one")
	}
	s.ask("three", three, "wait").leave(1, "three").ask("three", three, "wait").leave(1, "one").
		ask("two", two, "wait").leave(1, "three").leave(1, "two")
}

// A hand of all the queues holds each of them once: a tenant that looks for an empty
// one finds it.
func TestHandIsWithoutDuplicates(t *testing.T) {
	for run := range uint64(20) {
		cfg := gate.Config{Queue: 100, FairQueues: 6}
		want := map[uint64]int{}
		for tenant := range uint64(6) {
			want[100*run+tenant] = 5 // each run deals other hands
		}
		got := served(t, cfg, want, nil, nil, 600)
		for tenant, n := range got {
			if n < 97 || n > 103 {
				t.Errorf("run %d: tenant %d has %d of 100", run, tenant, n)
			}
		}
	}
}

func TestPartitions(t *testing.T) {
	of := func(p int) gate.Request { return gate.Request{N: 1, Partition: p} }
	cfg := gate.Config{Queue: 4, Partitions: []float64{0.5, 0.2}}
	t.Run("what is unused is borrowed, and comes back first", func(t *testing.T) {
		s := play(t, 4, cfg)
		for range 4 {
			s.ask("b", gate.Request{N: 1, Priority: 1}, "admit")
		}
		s.ask("c", gate.Request{N: 1, Priority: 1}, "wait").ask("one", of(1), "wait").ask("two", of(2), "wait").ask("one'", of(1), "wait").
			leave(1, "one").leave(1, "two").leave(1, "one'").
			ask("one", of(1), "wait").leave(1, "c") // it has its two: now priority counts
	})
	t.Run("nobody takes the places in the queue either", func(t *testing.T) {
		s := play(t, 4, cfg)
		for range 4 {
			s.ask("b", gate.Request{N: 1}, "admit")
		}
		for _, who := range []string{"c", "d", "e", "f"} {
			s.ask(who, gate.Request{N: 1, Priority: 1}, "wait")
		}
		s.ask("one", of(1), "wait").answers("f queue_full").ask("one'", of(1), "wait").answers("e queue_full").
			ask("one more than its due", of(1), "queue_full").ask("two", of(2), "wait").answers("d queue_full").
			ask("c again", gate.Request{N: 1, Priority: 2}, "wait").answers("c queue_full")
	})
	t.Run("what a partition has is counted", func(t *testing.T) {
		s := play(t, 2, gate.Config{Queue: 4, Partitions: []float64{0.5}}).ask("one", of(1), "admit").ask("b", of(0), "admit").
			ask("c", of(0), "wait").ask("one'", of(1), "wait")
		s.g.Leave(limit.Sample{}, of(0))
		s.answers("c").ask("d", of(0), "wait")
		s.g.Leave(limit.Sample{}, of(1))
		s.answers("one'")
	})
}

func TestFairAndPrioritiesCompose(t *testing.T) {
	cfg := gate.Config{Queue: 99, FairQueues: 64}
	ask := func(tenant uint64, p weir.Priority) gate.Request {
		return gate.Request{N: 1, Tenant: tenant, Priority: p}
	}
	play(t, 1, cfg).arrive("a", 1, "admit").
		ask("low 1", ask(1, -1), "wait").ask("1a", ask(1, 0), "wait").ask("1b", ask(1, 0), "wait").ask("1c", ask(1, 0), "wait").
		ask("2a", ask(2, 0), "wait").ask("high 1", ask(1, 1), "wait").
		leave(1, "high 1").leave(1, "1a").leave(1, "2a").leave(1, "1b").leave(1, "1c").leave(1, "low 1")
}

// A route with work that is much shorter than the mean of all goes before others of its priority, and
// takes the place of one of them in a full queue. One that is not known to be so waits its turn.
func TestCheapRoutesGoFirst(t *testing.T) {
	const dear, cheap, unknown = 1, 2, 3
	of := func(route int, p weir.Priority) gate.Request {
		return gate.Request{N: 1, Route: route, Priority: p, Deadline: endless}
	}
	s := play(t, 1, gate.Config{Queue: 5}).arrive("a", 1, "admit")
	for range 10 {
		s.g.Learn(limit.Sample{End: time.Second, Outcome: weir.Success}, of(dear, 0))
		s.g.Learn(limit.Sample{End: 50 * time.Millisecond, Outcome: weir.Success}, of(cheap, 0))
	}
	s.ask("dear 1", of(dear, 0), "wait").ask("cheap 1", of(cheap, 0), "wait").ask("high", of(dear, 1), "wait").
		ask("unknown", of(unknown, 0), "wait").ask("dear 2", of(dear, 0), "wait").
		ask("dear 3", of(dear, 0), "queue_full").ask("low", of(cheap, -1), "queue_full").
		ask("cheap 2", of(cheap, 0), "wait").answers("dear 2 queue_full").
		leave(1, "high").leave(1, "cheap 1").leave(1, "cheap 2").leave(1, "dear 1").leave(1, "unknown")
}

// New rules count for the waiters too.
func TestRulesChangeLive(t *testing.T) {
	one, two := gate.Request{N: 2, Tenant: 1}, gate.Request{N: 2, Tenant: 2}
	s := play(t, 3, gate.Config{Queue: 99}).arrive("a", 2, "admit").
		ask("1a", one, "wait").ask("1b", one, "wait").ask("1c", one, "wait").ask("2", two, "wait").
		answers() // 1a has the claim
	s.g.Configure(gate.Config{Queue: 99, FairQueues: 64})
	s.answers().leave(2, "1a").leave(2, "2").leave(2, "1b").cancel("1c", true).inflight(2)
}

func TestConfigValidate(t *testing.T) {
	for want, cfg := range map[string]gate.Config{
		"": {Queue: -1, MaxWait: -1, Partitions: []float64{0.1, 0.2, 0.3, 0.4}},
		`Discipline = "lifo": must be one of ["fifo" "codel" "codel_2012" "adaptive_lifo"]`: {Discipline: "lifo"},
		"Target = -1ns: must be >= 0":                    {Target: -1},
		"Interval = -2s: must be >= 0":                   {Interval: -2 * time.Second},
		"MinWait = -1ns: must be >= 0":                   {MinWait: -1},
		"Aging = -1ns: must be >= 0":                     {Aging: -1},
		"Depth = NaN: must be >= 0":                      {Depth: math.NaN()},
		"FairQueues = -1: must be between 0 and 4096":    {FairQueues: -1},
		"Partitions[1] = -0.5: must be between 0 and 1":  {Partitions: []float64{1, -0.5}},
		"the sum of Partitions = 1.2: must be at most 1": {Partitions: []float64{0.6, 0.6}},
	} {
		got := ""
		if err := cfg.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%+v: %q: want %q", cfg, got, want)
		}
	}
}
