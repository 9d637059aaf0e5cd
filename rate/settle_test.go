package rate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		maxDebt int
		costs   []int // of which the first is allowed, of a burst of 4
		want    float64
	}{
		{"less comes back", 0, []int{3, 1}, 3},
		{"nothing at all, all of it", 0, []int{3, 0}, 4},
		{"the same is no change", 0, []int{3, 3}, 1},
		{"more is taken", 0, []int{1, 3}, 1},
		{"into debt", 0, []int{3, 6}, -2},
		{"as deep as the burst", 0, []int{3, 8}, -4},
		{"and no deeper", 0, []int{3, 900}, -4},
		{"as deep as MaxDebt", 10, []int{3, 14}, -10},
		{"but no deeper", 10, []int{3, 15}, -10},
		{"a negative MaxDebt is no debt", -1, []int{3, 900}, 0},
		{"but all that is there", -1, []int{1, 3}, 1},
		{"it may be told again, down", 0, []int{3, 6, 1}, 3},
		{"and up", 0, []int{3, 1, 6}, -2},
		{"what was forgiven does not come back", 0, []int{3, 900, 3}, 1},
		{"nor without debt", -1, []int{3, 900, 3}, 1},
		{"as what was allowed", 0, []int{3, 7, 3, 0, 3}, 1},
		{"nothing was allowed", 0, []int{0, 3}, 1},
	} {
		bubble(t, func(t *testing.T) {
			l := rate.New(gcra.Per(10, time.Second, 4), rate.Config{MaxDebt: tt.maxDebt})
			l.AllowN(time.Now(), tt.costs[0])
			held := tt.costs[0]
			for _, n := range tt.costs[1:] {
				held = l.Settle(held, n)
			}
			if l.Tokens() != tt.want {
				t.Errorf("%s: %v tokens: want %v", tt.rule, l.Tokens(), tt.want)
			}
			time.Sleep(time.Hour)
			tokens(t, l, 4)
		})
	}
}

func TestSettleWithoutLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := rate.NewLimiter(rate.Inf, 0)
		r := free.Reserve()
		if held := free.Settle(1, 100); held != 100 {
			t.Errorf("%d charged: want 100", held)
		}
		r.Cancel()
		if !free.Allow() {
			t.Error("no limit, but denied")
		}
	})
}

// Nor does a lower bound forgive a debt that there is.
func TestSettleInDeeperDebtThanAllowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		l.AllowN(time.Now(), 4)
		held := l.Settle(4, 7)
		l.SetBurst(1)
		l.Settle(held, 8)
		tokens(t, l, -3)
	})
}

// What is given back never makes more than the burst.
func TestSettleLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		l.AllowN(time.Now(), 4)
		time.Sleep(3 * tick)
		l.Settle(4, 0) // 4 back to 3
		tokens(t, l, 4)
		time.Sleep(tick)
		tokens(t, l, 4)
	})
}

func TestSettleMovesWaiters(t *testing.T) {
	for name, tt := range map[string]struct {
		maxDebt int
		cost    int // instead of 4
		want    []string
	}{
		"the same":            {0, 4, []string{"a go 200ms", "b go 300ms"}},
		"less, forward":       {0, 3, []string{"a go 100ms", "b go 200ms"}},
		"much less, at once":  {0, 1, []string{"a go 50ms", "b go 50ms"}},
		"nothing, at once":    {0, 0, []string{"a go 50ms", "b go 50ms"}},
		"more, back":          {0, 6, []string{"a go 400ms", "b go 500ms"}},
		"most, to the bound":  {0, 100, []string{"a go 600ms", "b go 700ms"}},
		"most, to another":    {1, 100, []string{"a go 300ms", "b go 400ms"}},
		"most, without debt":  {-1, 100, []string{"a go 200ms", "b go 300ms"}}, // half a token is there, and none is taken
		"more, to no one ill": {-1, 4, []string{"a go 200ms", "b go 300ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := rate.New(gcra.Per(10, time.Second, 4), rate.Config{MaxDebt: tt.maxDebt})
				l.AllowN(time.Now(), 4)
				q := newLine(t, l)
				q.join("a", 2)
				q.join("b", 1)
				time.Sleep(tick / 2)
				l.Settle(4, tt.cost)
				time.Sleep(time.Minute)
				q.expect(tt.want...)
				tokens(t, l, 4)
			})
		})
	}
}

func TestPermitUse(t *testing.T) {
	for name, acquire := range map[string]func(l *rate.Limiter) (weir.Permit, error){
		"Limiter": func(l *rate.Limiter) (weir.Permit, error) { return l.Acquire(t.Context(), 2) },
		"Chain":   func(l *rate.Limiter) (weir.Permit, error) { return weir.Chain(l).Acquire(t.Context(), 2) },
	} {
		bubble(t, func(t *testing.T) {
			l := rate.New(gcra.Per(10, time.Second, 4), rate.Config{MaxDebt: 1})
			p, err := acquire(l)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tokens(t, l, 2)
			p.Use(0)
			tokens(t, l, 4)
			p.Use(100)
			tokens(t, l, -1)
			p.Use(1) // of the five that were charged
			tokens(t, l, 3)
			p.Use(100)
			p.Release(weir.Dropped) // what is taken is taken
			p.Use(0)
			p.Release(weir.Success)
			tokens(t, l, -1)
		})
	}
}

func TestAcquire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l weir.Limiter = rate.New(gcra.Per(10, time.Second, 2), rate.Config{MaxWait: tick})
		began := time.Now()
		for i, s := range []struct {
			n    int
			what string
			at   time.Duration
		}{{2, "go", 0}, {3, "over_burst", 0}, {2, "over_rate", 0}, {1, "go", tick}} {
			p, err := l.Acquire(t.Context(), s.n)
			if what(err) != s.what || time.Since(began) != s.at {
				t.Errorf("step %d: %v after %v: want %s after %v", i, err, time.Since(began), s.what, s.at)
			}
			p.Release(weir.Success)
		}
	})
}

// A refusal further down gives the tokens back, and lets the calls go that wait for
// them.
func TestRefusalDownTheChainGivesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 2)
		down, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1), MaxWait: tick / 2})
		testrig.Must(t, err)
		busy, err := down.Acquire(t.Context(), 1)
		testrig.Must(t, err)
		defer busy.Release(weir.Success)
		chain := weir.Chain(l, down)
		if _, err := chain.Acquire(t.Context(), 2); what(err) != "over_limit" {
			t.Errorf("%v", err)
		}
		tokens(t, l, 2)
		l.Allow()
		q := newLine(t, l)
		go func() {
			if _, err := chain.Acquire(t.Context(), 1); what(err) != "overdue" {
				t.Errorf("%v", err)
			}
		}()
		synctest.Wait()
		q.join("a", 1)
		time.Sleep(time.Minute)
		q.expect("a go 50ms")
	})
}

// Tokens that come back serve the calls that wait, also when some have gone.
func TestSettleMovesThoseWhoWaitStill(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		l.AllowN(time.Now(), 4)
		q := newLine(t, l)
		q.join("a", 1)
		q.join("b", 2)
		q.join("c", 2)
		time.Sleep(tick * 3 / 2)
		l.Settle(4, 2)
		tokens(t, l, -1.5) // 4 and 1½, less 2, 1, 2 and 2
		if l.Waiting() != 1 {
			t.Errorf("%d wait: want c only", l.Waiting())
		}
		l.Settle(2, 1)
		tokens(t, l, -0.5)
		time.Sleep(time.Minute)
		q.expect("a go 100ms", "b go 150ms", "c go 200ms")
	})
}

// A call that is refused because its turn comes too late makes room for the calls
// behind it, which are judged only then.
func TestSettleTellsWhoWillBeTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		l.AllowN(time.Now(), 4)
		q := newLine(t, l)
		q.join("a", 1)
		q.joinWithin(3*tick+tick/2, "b", 2)
		q.joinWithin(4*tick+tick/2, "c", 1)
		time.Sleep(tick * 3 / 2)
		l.Settle(4, 5)
		time.Sleep(time.Minute)
		q.expect("a go 100ms", "b too_late 150ms", "c go 300ms")
	})
}
