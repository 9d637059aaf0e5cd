package limit_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// A starter runs work of a duration under an Algorithm.
type starter struct {
	t    *testing.T
	alg  limit.Algorithm
	now  time.Duration
	took time.Duration
}

func newStarter(t *testing.T, alg limit.Algorithm, cfg limit.SlowStart) *starter {
	t.Helper()
	slow, err := limit.NewSlowStart(alg, cfg)
	testrig.Must(t, err)
	return &starter{t, slow, 0, 10 * time.Millisecond}
}

// trip runs n pieces of work at once, at most as many as the limit, with an outcome.
func (s *starter) trip(n int, o weir.Outcome) (why limit.Cause) {
	n = min(n, s.alg.Limit())
	start := s.now
	s.now += s.took
	for range n {
		if c := s.alg.Observe(limit.Sample{Start: start, End: s.now, Inflight: n, Outcome: o}); c != limit.Kept {
			why = c
		}
	}
	return why
}

// idle lets time pass, with the ticks that the Algorithm asks for.
func (s *starter) idle(d time.Duration) (ticks int, why limit.Cause) {
	until := s.now + d
	for {
		at, ok := s.alg.(limit.Controller).Tick()
		if !ok || at > until {
			s.now = until
			return ticks, why
		}
		s.now = max(s.now, at)
		if c := s.alg.(limit.Controller).Expire(s.now); c != limit.Kept {
			why = c
		}
		ticks++
	}
}

// limits expects the limits of the next trips, each of which uses the whole limit.
func (s *starter) limits(want ...int) {
	s.t.Helper()
	for i, n := range want {
		if got := s.alg.Limit(); got != n {
			s.t.Errorf("trip %d: the limit is %d: want %d", i, got, n)
		}
		s.trip(1<<20, weir.Success)
	}
}

func TestSlowStart(t *testing.T) {
	s := newStarter(t, limit.Fixed(100), limit.SlowStart{Initial: 5})
	s.limits(5, 10, 20, 40, 80, 100, 100)

	// What is used stays.
	for range 100 {
		s.trip(60, weir.Success)
		s.idle(5 * time.Second)
	}
	s.limits(100)

	// What is not used, falls: after a minute or two to twice what was used of it.
	var why limit.Cause
	for range 40 {
		s.trip(7, weir.Success)
		if _, c := s.idle(5 * time.Second); c != limit.Kept {
			why = c
		}
	}
	if got := s.alg.Limit(); got != 14 {
		t.Errorf("after three minutes with 7 in flight: %d (%v): want 14", got, why)
	}
	if e := s.alg.(limit.Controller).Evidence(); e["used"] != 7 {
		t.Errorf("evidence %v: want 7 used", e)
	}
	s.limits(14, 28, 56, 100)

	// Without work, it falls to the beginning, and then time does not matter any more.
	ticks, why := s.idle(time.Hour)
	if s.alg.Limit() != 5 || ticks > 3 || why != limit.Idle {
		t.Errorf("after an hour: %d, %d ticks, %v: want 5, idle", s.alg.Limit(), ticks, why)
	}
	if why := s.trip(5, weir.Success); why != limit.Grown {
		t.Errorf("the limit grows because of %v: want grown", why)
	}
	s.limits(10, 20, 40, 80, 100)
}

// A tenth of the limit, and one at least, is the beginning.
func TestSlowStartInitial(t *testing.T) {
	newStarter(t, limit.Fixed(100), limit.SlowStart{}).limits(10, 20, 40, 80, 100)
	newStarter(t, limit.Fixed(3), limit.SlowStart{}).limits(1, 2, 3, 3)
	newStarter(t, limit.Fixed(3), limit.SlowStart{Initial: 9}).limits(3, 3)
	newStarter(t, limit.Fixed(0), limit.SlowStart{}).limits(0, 0)
}

// In a service that is in use already, the limit begins elsewhere, and after an idle time as ever.
func TestSlowStartFirst(t *testing.T) {
	s := newStarter(t, limit.Fixed(100), limit.SlowStart{Idle: time.Minute, Initial: 5, First: 60})
	if n := s.alg.Limit(); n != 60 {
		t.Errorf("%d at first: want 60", n)
	}
	s.trip(60, weir.Success)
	if n := s.alg.Limit(); n != 100 {
		t.Errorf("%d after a round: want 100", n)
	}
	s.idle(5 * time.Minute)
	if n := s.alg.Limit(); n != 5 {
		t.Errorf("%d after an idle time: want 5", n)
	}
	if n := newStarter(t, limit.Fixed(100), limit.SlowStart{First: 200}).alg.Limit(); n != 100 {
		t.Errorf("%d: want the limit of the Algorithm", n)
	}
}

// A limit that is not used does not grow, and one under which work is dropped falls.
func TestSlowStartNeedsSuccess(t *testing.T) {
	s := newStarter(t, limit.Fixed(100), limit.SlowStart{Initial: 8})
	for range 100 {
		s.trip(3, weir.Success)
	}
	s.limits(8, 16, 32)
	if why := s.trip(64, weir.Dropped); why != limit.Dropped || s.alg.Limit() != 32 {
		t.Errorf("%v, %d: want dropped, 32", why, s.alg.Limit())
	}
	for range 10 {
		s.trip(64, weir.Dropped)
	}
	if s.alg.Limit() != 8 {
		t.Errorf("the limit falls to %d: want 8", s.alg.Limit())
	}
	s.trip(8, weir.Ignored)
	s.limits(8, 16)
}

// After an outage the limit begins again; single failures do not matter.
func TestSlowStartAfterOutage(t *testing.T) {
	s := newStarter(t, limit.Fixed(100), limit.SlowStart{})
	s.limits(10, 20, 40, 80, 100)
	for range 1000 {
		s.trip(7, outcome.TimedOut)
		s.trip(1, weir.Success)
	}
	s.limits(100)
	for range 50 {
		s.trip(100, weir.Dropped) // half a second
	}
	s.limits(100)
	for range 101 {
		s.trip(100, weir.Dropped)
	}
	s.limits(10, 20, 40, 80, 100)
}

// Work that takes longer than the idle time is no idle time.
func TestSlowStartOfLongWork(t *testing.T) {
	s := newStarter(t, limit.Fixed(16), limit.SlowStart{Initial: 1, Idle: time.Minute})
	s.took = 5 * time.Minute
	for range 12 {
		s.trip(16, weir.Success)
		s.idle(0)
	}
	s.limits(16)
}

// The limit is never above that of the other Algorithm, which goes on learning.
func TestSlowStartOfAuto(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		auto, err := limit.NewAuto(limit.Config{Initial: 40})
		testrig.Must(t, err)
		s := newStarter(t, auto, limit.SlowStart{Idle: time.Second, Initial: 4})
		if s.alg.(limit.Controller).Sparse() != auto.(limit.Controller).Sparse() {
			t.Error("it needs other samples than Auto")
		}
		s.alg.(limit.Controller).SetEpoch(time.Duration(1 << 60))
		for range 2000 {
			was := s.alg.Limit()
			var why limit.Cause
			if r.IntN(50) == 0 {
				_, why = s.idle(time.Duration(r.Int64N(int64(5 * time.Second))))
			} else {
				why = s.trip(1+r.IntN(60), weir.Outcome(r.IntN(int(outcome.Count))))
			}
			if got := s.alg.Limit(); got > auto.Limit() || got < min(1, auto.Limit()) || got != was && why == limit.Kept {
				t.Fatalf("seed %d: %d, of Auto %d (%v)", seed, got, auto.Limit(), why)
			}
			if at, ok := s.alg.(limit.Controller).Deadline(); ok {
				if want, _ := auto.(limit.Controller).Deadline(); at != want {
					t.Fatalf("seed %d: deadline %v: want that of Auto, %v", seed, at, want)
				}
			}
		}
	}
}

func TestSlowStartValidate(t *testing.T) {
	for want, cfg := range map[string]limit.SlowStart{
		"limit: Idle = -1s: must be >= 0":   {Idle: -time.Second},
		"limit: Initial = -1: must be >= 0": {Initial: -1},
	} {
		if _, err := limit.NewSlowStart(limit.Fixed(1), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v: want %s", cfg, err, want)
		}
	}
}
