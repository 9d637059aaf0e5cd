package limit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/autolimit"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// From one to ten thousand at once, from a tenth of a millisecond to minutes,
// and from any initial limit, Auto finds what the service can do at once. How
// far above it the limit rests depends on when the drains of the start were.
func TestAutoFinds(t *testing.T) {
	for _, tt := range []struct {
		name      string
		initial   int
		servers   int
		mean      time.Duration
		shape     string
		after     time.Duration
		over      time.Duration
		low, high float64 // of the mean limit / servers
	}{
		{"one", 0, 1, time.Millisecond, "constant", 24 * time.Second, 8 * time.Second, 1, 1.1},
		{"one, exponential", 0, 1, time.Millisecond, "exponential", 64 * time.Second, 16 * time.Second, 1, 2},
		{"the ten slots", 0, 10, 5 * time.Millisecond, "constant", 500 * time.Millisecond, 8 * time.Second, 0.95, 1.15},
		{"the ten slots, from far above", 50, 10, 5 * time.Millisecond, "constant", 32 * time.Second, 16 * time.Second, 1, 1.7},
		{"the ten slots, exponential", 0, 10, 5 * time.Millisecond, "exponential", 8 * time.Second, 16 * time.Second, 1, 2},
		{"seven that take minutes", 0, 7, 3 * time.Minute, "constant", 4 * time.Hour, 8 * time.Hour, 1, 1.75},
		{"seven that take minutes, from one", 1, 7, 3 * time.Minute, "constant", 4 * time.Hour, 8 * time.Hour, 0.9, 1.5},
		{"a hundred", 0, 100, 100 * time.Microsecond, "exponential", 120 * time.Millisecond, 120 * time.Millisecond, 0.8, 1.2},
		{"a thousand, from one", 1, 1000, 20 * time.Millisecond, "constant", 4 * time.Second, time.Second, 0.9, 1.65},
		{"nearly ten thousand", 0, 9000, time.Millisecond, "exponential", 150 * time.Millisecond, 50 * time.Millisecond, 0.8, 1.2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachEpoch(t, limit.Config{Initial: tt.initial}, func(t *testing.T, a limit.Controller) {
				p := newPlant(a, tt.servers, tt.mean)
				p.shape = tt.shape
				knee := float64(tt.servers)
				p.last(tt.after).wantMean(t, tt.over, knee*tt.low, knee*tt.high)
			})
		})
	}
}

// "Drift upward under constant overload": an hour of it leaves the limit where
// it was, on average.
func TestAutoDoesNotDrift(t *testing.T) {
	for _, shape := range []string{"constant", "exponential"} {
		t.Run(shape, func(t *testing.T) {
			eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
				p := newPlant(a, 20, 50*time.Millisecond)
				p.shape = shape
				for p.last(2 * time.Minute); p.now < time.Hour; {
					p.wantMean(t, 14*time.Minute, 19, 36)
				}
			})
		})
	}
}

// rested returns the plant of most tests, twenty servers of 50 ms, once its
// limit has come to rest, and the mean limit.
func rested(t *testing.T, a limit.Controller) (p *plant, rest float64) {
	t.Helper()
	p = newPlant(a, 20, 50*time.Millisecond)
	p.last(32 * time.Second)
	rest, _, _ = p.average(4 * time.Second)
	if rest < 19 || rest > 30 {
		t.Fatalf("limit %.1f at rest: want 19 to 30", rest)
	}
	for 10*p.alg.Limit() < 9*int(rest) { // a drain
		p.run(1)
	}
	return p, rest
}

// A service that slows down is not a queue: the limit stays, and stays when it
// recovers. Drains, which tell a queue from a slower service, halve it for
// three service times.
func TestAutoKnowsASlowerService(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p, rest := rested(t, a)
		p.mean = 500 * time.Millisecond
		for range 10 {
			p.wantMean(t, 20*time.Second, 0.75*rest, 1.35*rest)
		}
		p.mean = 50 * time.Millisecond
		p.last(10 * time.Second)
		p.wantMean(t, 4*time.Second, 0.85*rest, 32)
	})
}

// Servers that fail, and come back, are a lower knee.
func TestAutoFollowsServers(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p, _ := rested(t, a)
		p.servers = 8
		p.last(96 * time.Second)
		p.wantMean(t, 8*time.Second, 7.5, 14)
		p.servers = 20
		p.last(64 * time.Second)
		p.wantMean(t, 8*time.Second, 18, 32)
	})
}

// A drain that has met a queue puts raises off until the next drain. That ends by itself where too
// little work tells of a small limit for another drain.
func TestAutoRaisesWithoutDrains(t *testing.T) {
	eachEpoch(t, limit.Config{Initial: 2}, func(t *testing.T, a limit.Controller) {
		p := newPlant(a, 1, 50*time.Millisecond)
		p.shape = "exponential"
		met, last := false, limit.Kept
		p.seen = func(_ time.Duration, _, _ int, c limit.Cause) {
			met, last = last == limit.Drain && c == limit.Queue, c
		}
		for !met {
			p.run(1)
		}
		raised, n := false, 0
		p.seen = func(_ time.Duration, was, limit int, _ limit.Cause) { raised = raised || limit > was }
		p.outcome = func(limit.Sample) weir.Outcome {
			if n++; n%5 > 0 {
				return weir.Ignored
			}
			return weir.Success
		}
		if p.last(30 * time.Second); !raised {
			t.Errorf("at %v: limit %d, and no raise for half a minute", p.now, a.Limit())
		}
	})
}

// "Growth while idle", "drop burst after idle": a limit that is not used is
// left alone, for however long, and has its old value when it is used again.
func TestAutoLeavesAnUnusedLimitAlone(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p, _ := rested(t, a)
		p.demand = 5
		p.run(2000) // a trial that had begun is over
		was := p.alg.Limit()
		p.seen = func(now time.Duration, was, limit int, c limit.Cause) {
			t.Errorf("at %v: limit %d to %d, %v, though it is not used", now, was, limit, c)
		}
		p.run(100_000)
		p.idle(time.Hour)
		p.seen = nil
		p.demand = 0
		if n := p.alg.Limit(); n != was {
			t.Errorf("limit %d after it was idle: want %d still", n, was)
		}
		for range 40 {
			p.wantMean(t, 2*time.Second, 0.8*float64(was), 36)
		}
	})
}

// A raise that is not used is taken back, and says so.
func TestAutoTakesBackAnUnusedRaise(t *testing.T) {
	p := newPlant(auto(t, limit.Config{}), 1000, time.Millisecond)
	p.trips(1)
	var idle bool
	p.seen = func(_ time.Duration, was, n int, c limit.Cause) {
		idle = idle || c == limit.Idle && n < was
	}
	p.run(7)
	p.demand = 3
	p.run(1000)
	if !idle {
		t.Errorf("limit %d: the raise still stands, though nobody made use of it", p.alg.Limit())
	}
}

// "Collapse to 1 after one burst of failures", "caller cancel counted as a
// drop": a burst takes half at most, and what was there is soon there again;
// callers that leave take nothing.
func TestAutoBurstOfFailures(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		outcome weir.Outcome
		share   float64 // of the limit, that is left at least
	}{
		{"a burst of drops", weir.Dropped, 0.5},
		{"a burst of time-outs", outcome.TimedOut, 0.5},
		{"work that was late", outcome.Late, 0.5},
		{"callers that leave", outcome.Left, 1},
		{"errors that say nothing about load", weir.Ignored, 1},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
				p, rest := rested(t, a)
				begin, was := p.now, p.alg.Limit()
				p.outcome = func(s limit.Sample) weir.Outcome {
					if s.Start < begin { // all that was in flight
						return tt.outcome
					}
					return weir.Success
				}
				p.seen = func(_ time.Duration, _, n int, c limit.Cause) {
					if float64(n) < tt.share*float64(was)-1 && c == limit.Dropped {
						t.Errorf("limit %d to %d, %v: want %v of it at least", was, n, c, tt.share)
					}
				}
				p.last(time.Second)
				p.wantMean(t, time.Second, 19.5, 1.15*rest) // what was above the knee was a queue
			})
		})
	}
}

// Work that is late because it waited says nothing against the limit: a lower one would make it
// wait longer. Work that was abandoned would have taken longer than it did.
func TestAutoLateForWaiting(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		shape  string
		sample limit.Sample
		falls  map[weir.Outcome]bool
	}{
		{"took no longer than ever", "", limit.Sample{End: 50 * time.Millisecond, Waited: 0},
			map[weir.Outcome]bool{outcome.Late: false, outcome.TimedOut: true}},
		{"took longer, but waited longer still", "", limit.Sample{End: 200 * time.Millisecond, Waited: 300 * time.Millisecond},
			map[weir.Outcome]bool{outcome.Late: false, outcome.TimedOut: false}},
		{"took longer, and hardly waited", "", limit.Sample{End: 200 * time.Millisecond, Waited: 100 * time.Millisecond},
			map[weir.Outcome]bool{outcome.Late: true, outcome.TimedOut: true}},
		{"took longer, but some always did", "exponential", limit.Sample{End: 110 * time.Millisecond, Waited: 0},
			map[weir.Outcome]bool{outcome.Late: true, outcome.TimedOut: true}},
	} {
		for o, falls := range tt.falls {
			t.Run(fmt.Sprintf("%s, %v", tt.rule, o), func(t *testing.T) {
				p := newPlant(auto(t, limit.Config{}), 20, 50*time.Millisecond)
				p.shape = tt.shape
				var raised bool // a raise is on trial, or was a moment ago
				var moved time.Duration
				p.seen = func(now time.Duration, _, _ int, c limit.Cause) { raised, moved = c == limit.Throughput, now }
				for p.run(4000); raised || p.now-moved < 100*time.Millisecond; {
					p.run(1)
				}
				fell := false
				for i := range 100 {
					s := tt.sample
					s.Start, s.End = p.now+time.Duration(i)*time.Millisecond, p.now+time.Duration(i)*time.Millisecond+s.End
					s.Inflight, s.Outcome = p.alg.Limit(), o
					c := p.alg.Observe(s)
					fell = fell || c == limit.Dropped
				}
				if fell != falls {
					t.Errorf("the limit fell: %v: want %v", fell, falls)
				}
			})
		}
	}
}

// Failures by chance, unrelated to load, do not wear the limit down.
func TestAutoBearsAFewFailures(t *testing.T) {
	p := newPlant(auto(t, limit.Config{}), 20, 50*time.Millisecond)
	p.shape = "exponential"
	p.outcome = func(limit.Sample) weir.Outcome {
		if p.rng.Float64() < 0.02 {
			return weir.Dropped
		}
		return weir.Success
	}
	p.run(20_000)
	for range 100 {
		p.wantMean(t, time.Second, 9, 60)
	}
}

// While all fails, and a failure takes as long as a success, the limit falls to
// its least. It is back within a second, or twenty service times.
func TestAutoOutage(t *testing.T) {
	for _, mean := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
		t.Run(mean.String(), func(t *testing.T) {
			eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
				p := newPlant(a, 20, mean)
				p.last(640*mean + 16*time.Second)
				rest, _, _ := p.average(80 * mean)
				p.outcome = func(limit.Sample) weir.Outcome { return weir.Dropped }
				p.run(1000)
				p.wantLimit(t, 1, 2)
				p.outcome = nil
				p.last(max(time.Second, 20*mean))
				p.wantMean(t, 10*mean, 0.85*rest, 1.35*rest)
			})
		})
	}
}

// "Drops always push down, at most once per round trip."
func TestAutoDropsOncePerRoundTrip(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p := newPlant(a, 100, time.Second)
		p.trips(60)
		p.outcome = func(limit.Sample) weir.Outcome { return weir.Dropped }
		var at []time.Duration
		p.seen = func(now time.Duration, was, n int, c limit.Cause) {
			if c != limit.Dropped {
				return // the end of a trial
			}
			if n >= was || n < was/2-1 {
				t.Errorf("at %v: limit %d to %d, %v: want a drop to half at least", now, was, n, c)
			}
			at = append(at, now)
		}
		p.trips(8)
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < time.Second {
				t.Errorf("fell at %v and again at %v: a round trip takes a second", at[i-1], at[i])
			}
		}
		if len(at) < 3 {
			t.Errorf("fell %d times in eight round trips", len(at))
		}
	})
}

// What takes longer than is healthy lowers the limit even if more work were
// more throughput.
func TestAutoMaxHealthyLatency(t *testing.T) {
	p := newPlant(auto(t, limit.Config{Initial: 40, MaxHealthyLatency: 99 * time.Millisecond}), 10, 50*time.Millisecond)
	slow := false
	p.seen = func(_ time.Duration, _, _ int, c limit.Cause) { slow = slow || c == limit.Slow }
	p.trips(50)
	if !slow {
		t.Error("the limit never fell because work was slow")
	}
	p.wantLimit(t, 5, 19)
}

func TestAutoBounds(t *testing.T) {
	eachEpoch(t, limit.Config{Min: 5, Max: 50}, func(t *testing.T, a limit.Controller) {
		p := newPlant(a, 1, time.Millisecond)
		floor, ceiling := false, false
		p.seen = func(_ time.Duration, _, n int, c limit.Cause) {
			floor = floor || c == limit.Floor && n == 5
			ceiling = ceiling || c == limit.Ceiling && n == 50
			if n < 5 || n > 50 {
				t.Errorf("limit %d: want 5 to 50", n)
			}
		}
		p.last(32 * time.Second)
		p.wantMean(t, 8*time.Second, 5, 5.5)
		p.servers = 100
		p.last(64 * time.Second)
		p.wantMean(t, 8*time.Second, 45, 50)
		if !floor || !ceiling {
			t.Errorf("floor said: %v, ceiling said: %v", floor, ceiling)
		}
	})
}

// A limit that begins at its most finds a knee below it, too, and so does one
// that has little room above.
func TestAutoBeginsAtItsMost(t *testing.T) {
	for _, initial := range []int{44, 50} {
		t.Run(fmt.Sprint(initial), func(t *testing.T) {
			eachEpoch(t, limit.Config{Initial: initial, Max: 50}, func(t *testing.T, a limit.Controller) {
				p := newPlant(a, 10, 5*time.Millisecond)
				p.last(32*time.Second).wantMean(t, 16*time.Second, 9.5, 17)
			})
		})
	}
}

// Work of many units at once fills a limit before its last unit is taken.
func TestAutoUnits(t *testing.T) {
	a := auto(t, limit.Config{Initial: 12})
	now, grew := time.Duration(0), false
	for range 200 {
		now += time.Second
		grew = grew || a.Observe(limit.Sample{Start: now - time.Second, End: now, Inflight: 10, N: 5, Outcome: ok}) != limit.Kept
	}
	if !grew {
		t.Error("two times five of twelve units are in use, no more fit, and the limit is taken as unused")
	}
}

func TestAutoValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.Config
		want string
	}{
		{limit.Config{Min: -1}, "Min = -1: must be >= 1"},
		{limit.Config{Min: 5, Max: 4}, "Max = 4: must be >= Min (5)"},
		{limit.Config{Max: -4}, "Max = -4"},
		{limit.Config{Initial: 20_000}, "Initial = 20000: must be in [1, 10000]"},
		{limit.Config{Initial: -2}, "Initial = -2"},
		{limit.Config{MaxHealthyLatency: -1}, "MaxHealthyLatency = -1ns: must be >= 0"},
	} {
		if _, err := limit.NewAuto(tt.cfg); err == nil || !strings.HasPrefix(err.Error(), "limit: "+tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
	}
	for _, tt := range []struct {
		cfg  limit.Config
		want int
	}{
		{limit.Config{}, 10}, {limit.Config{Max: 5}, 5}, {limit.Config{Min: 30}, 30}, {limit.Config{Min: 20_000}, 20_000},
	} {
		if n := auto(t, tt.cfg).Limit(); n != tt.want {
			t.Errorf("%+v: starts at %d: want %d", tt.cfg, n, tt.want)
		}
	}
}

// watched tells watch of each change of the limit, and of each verdict that changes
// nothing, while p serves for a span of time.
func (p *plant) watched(a limit.Controller, span time.Duration, watch func(now time.Duration, was, n int, c limit.Cause, e autolimit.Evidence)) {
	last := limit.EvidenceOf(a)
	p.seen = func(now time.Duration, was, n int, c limit.Cause) {
		last = limit.EvidenceOf(a)
		watch(now, was, n, c, last)
	}
	for end := p.now + span; p.now < end; {
		p.run(1)
		if e := limit.EvidenceOf(a); e != last {
			last = e
			watch(p.now, a.Limit(), a.Limit(), limit.Kept, e)
		}
	}
}

// begins reports whether a change of the limit begins a trial: there is nothing to
// compare it with yet.
func begins(e autolimit.Evidence) bool { return e.Reference == 0 }

func TestEvidenceIsWhatIsKnown(t *testing.T) {
	a := auto(t, limit.Config{})
	newPlant(a, 20, 50*time.Millisecond).last(time.Minute)
	want, got := limit.EvidenceOf(a), a.Evidence()
	if want.Latency == 0 || got["latency"] != want.Latency.Seconds() || got["samples"] != float64(want.Samples) {
		t.Errorf("%v: want %+v", got, want)
	}
	if _, ok := got["failed"]; ok {
		t.Errorf("%v: nothing has failed", got)
	}
}

// Once a drain has met a queue, a limiter with a proven baseline does not trim before
// one of its raises has met all of a queue: until then others may share the service.
func TestAutoTrimsOnlyIfItIsAlone(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p := newPlant(a, 20, 50*time.Millisecond)
		p.last(2 * time.Minute)
		drains, trimmed := 0, 0
		doubts, draining := false, false
		watch := func(now time.Duration, was, n int, c limit.Cause, e autolimit.Evidence) {
			switch {
			case c == limit.Queue && draining:
				doubts = true
				drains++
			case c == limit.Queue && begins(e):
				trimmed++
				if doubts {
					t.Errorf("at %v: a trim, limit %d to %d, though the last drain met a queue", now, was, n)
				}
			case !begins(e) && e.Elasticity > 0.7:
				doubts = false
			}
			draining = c == limit.Drain
		}
		for range 200 {
			p.servers = 8
			p.watched(a, time.Duration(p.rng.Int64N(int64(20*time.Second))), watch)
			p.servers = 20
			p.watched(a, time.Duration(p.rng.Int64N(int64(20*time.Second))), watch)
		}
		t.Logf("%d drains met a queue, %d trims", drains, trimmed)
		if drains < 5 || trimmed < 20 {
			t.Errorf("%d drains met a queue, %d trims: want more", drains, trimmed)
		}
	})
}

// A trim lasts until its verdict: no common raise takes its place. If the trim met a
// queue, no raise follows for 16 round trips.
func TestAutoRaisesNothingAfterATrim(t *testing.T) {
	queues := 0
	for i := range 100 {
		a := auto(t, limit.Config{Initial: 50, Max: 50})
		a.SetEpoch(time.Duration(i) * 777 * time.Millisecond)
		kept, trimming, draining := time.Duration(-1), false, false
		p := newPlant(a, 10, 50*time.Millisecond)
		p.watched(a, 30*time.Second, func(now time.Duration, was, n int, c limit.Cause, e autolimit.Evidence) {
			switch raises := c == limit.Throughput && n > was && begins(e) && !draining; {
			case raises && trimming:
				t.Errorf("run %d: at %v, a raise of %d to %d in the middle of a trim", i, now, was, n)
			case raises && kept >= 0 && now < kept+16*p.mean:
				t.Errorf("run %d: at %v, a raise of %d to %d, though a trim met a queue at %v", i, now, was, n, kept)
			case trimming && c == limit.Kept && e.Elasticity > 0.7:
				kept = now
				queues++
			}
			trimming, draining = c == limit.Queue && begins(e), c == limit.Drain
		})
	}
	t.Logf("%d trims met a queue", queues)
	if queues < 100 {
		t.Errorf("%d trims met a queue: want more", queues)
	}
}

// A limiter keeps a trim that meets most of a queue. Beside a neighbour with a fixed
// limit it so leaves the service to the neighbour, instead of adding to the queue.
func TestAutoKeepsATrimOfMostOfAQueue(t *testing.T) {
	epochs, sum := 30, 0.0
	rng := rand.New(rand.NewPCG(epochSeed, 5))
	for range epochs {
		a := auto(t, limit.Config{})
		a.SetEpoch(time.Duration(rng.Int64N(int64(10_000 * time.Hour))))
		p := newPlant(a, 2, 50*time.Millisecond)
		p.neighbour = 2
		p.last(time.Minute)
		mean, _, _ := p.average(time.Minute)
		sum += mean
	}
	if mean := sum / float64(epochs); mean < 1 || mean > 3 {
		t.Errorf("limit %.2f on average: want 1 to 3", mean)
	}
}
