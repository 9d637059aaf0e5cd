package rate_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/rate"
)

// three are 10 a second, 1 a second and 1 an hour.
func three() []*rate.Limiter {
	return []*rate.Limiter{rate.NewLimiter(10, 3), rate.NewLimiter(1, 5), rate.NewLimiter(rate.Every(time.Hour), 8)}
}

// asTheyAre are the Limiters, with queues in which no call waits.
func asTheyAre(ls []*rate.Limiter) []*rate.Limiter {
	for i := range ls {
		ls[i] = withConfig(ls[i], rate.Config{MaxWait: -1})
	}
	return ls
}

// Without a wait, all take, or none does.
func TestChainTakesOfAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ls := asTheyAre(three())
		m := chain(ls...)
		for i, s := range []struct {
			sleep time.Duration
			n     int
			want  string
			retry time.Duration
			left  [3]float64
		}{
			{0, 0, "", 0, [3]float64{3, 5, 8}},
			{0, 6, "over_burst", weir.Never, [3]float64{3, 5, 8}},
			{0, 2, "", 0, [3]float64{1, 3, 6}},
			{0, 2, "over_rate", tick, [3]float64{1, 3, 6}},
			{0, 0, "", 0, [3]float64{1, 3, 6}},
			{2 * tick, 3, "", 0, [3]float64{0, 0.2, 3 + 0.2/3600}},
			{0, 1, "over_rate", tick, [3]float64{0, 0.2, 3 + 0.2/3600}},
			{time.Second, 2, "over_rate", 8 * tick, [3]float64{3, 1.2, 3 + 1.2/3600}},
			{9 * time.Second, 3, "", 0, [3]float64{0, 2, 10.2 / 3600}},
			{time.Minute, 1, "over_rate", time.Hour - 702*tick, [3]float64{3, 5, 70.2 / 3600}},
			{0, 4, "over_burst", weir.Never, [3]float64{3, 5, 70.2 / 3600}},
		} {
			time.Sleep(s.sleep)
			_, err := m.Acquire(t.Context(), s.n)
			retry := retryAfter(err) // a Rejection rounds it up
			if s.want == "" && err != nil || s.want != "" && (what(err) != s.want || retry < s.retry || retry-s.retry > s.retry/8) {
				t.Errorf("step %d: %v, after %v: want %q, after %v", i, err, retry, s.want, s.retry)
			}
			for j, l := range ls {
				if math.Abs(l.Tokens()-s.left[j]) > 1e-9 {
					t.Errorf("step %d: limiter %d has %v tokens: want %v", i, j, l.Tokens(), s.left[j])
				}
			}
		}
	})
}

func retryAfter(err error) time.Duration {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.RetryAfter
	}
	return 0
}

// A limiter twice must have enough for both: if not, it gives all back.
func TestChainOfTheSameTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		once := withConfig(rate.NewLimiter(10, 3), rate.Config{MaxWait: -1})
		if allows(t, weir.Chain(once, once), 2) {
			t.Error("want the second to deny")
		}
		tokens(t, once, 3)
		l := rate.NewLimiter(10, 3)
		m := weir.Chain(l, l)
		if !allows(t, m, 2) {
			t.Error("want it to wait")
		}
		tokens(t, l, 0)
		time.Sleep(tick)
		p, err := m.Acquire(t.Context(), 1)
		if err != nil {
			t.Error(err)
		}
		p.Use(0)
		tokens(t, l, 2)
	})
}

func TestChainWaitsForTheLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ls := three()
		m := chain(ls...)
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 0, tick, 2 * tick, time.Second, 2 * time.Second, 3 * time.Second, time.Hour} {
			if _, err := m.Acquire(t.Context(), 1); err != nil || time.Since(began) != want {
				t.Errorf("event %d: %v after %v: want %v", i, err, time.Since(began), want)
			}
		}
	})
}

// If one refuses, or the context ends, the others are as if there had been no call:
// the ones that granted have their tokens back, the queues of the others move on.
func TestChainWaitOfNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		taken  [3]int // before
		n      int
		cfg    rate.Config // of the last
		within time.Duration
		want   string
		after  time.Duration
	}{
		"over the burst of the first":        {[3]int{}, 4, rate.Config{}, 0, "over_burst", 0},
		"too late for the last":              {[3]int{3, 0, 8}, 1, rate.Config{}, time.Minute, "too_late", tick},
		"too late for the second":            {[3]int{3, 5, 8}, 1, rate.Config{}, 2 * tick, "too_late", tick},
		"nobody waits for the last":          {[3]int{3, 4, 8}, 1, rate.Config{Queue: -1}, 0, "over_rate", tick},
		"the context ends, for the first":    {[3]int{3, 5, 8}, 1, rate.Config{}, -tick / 2, "cancel", tick / 2},
		"the context ends, for the second":   {[3]int{3, 5, 8}, 1, rate.Config{}, -tick * 2, "cancel", tick * 2},
		"the context ends, for the last":     {[3]int{3, 0, 8}, 1, rate.Config{}, -time.Minute, "cancel", time.Minute},
		"the context has ended":              {[3]int{}, 1, rate.Config{}, -1, "cancel", 0},
		"the context has ended, first empty": {[3]int{3, 0, 0}, 1, rate.Config{}, -1, "cancel", 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ls, twins := three(), three() // the twins get no further call
				ls[2] = withConfig(ls[2], tt.cfg)
				for i, n := range tt.taken {
					ls[i].AllowN(time.Now(), n)
					twins[i].AllowN(time.Now(), n)
				}
				ctx, cancel := context.WithCancel(t.Context())
				switch {
				case tt.within > 0:
					ctx, cancel = context.WithTimeout(ctx, tt.within)
				case tt.within == -1:
					cancel()
				case tt.within < 0:
					time.AfterFunc(-tt.within, cancel)
				}
				defer cancel()
				began := time.Now()
				_, err := chain(ls...).Acquire(ctx, tt.n)
				if what(err) != tt.want || time.Since(began) != tt.after {
					t.Errorf("%v after %v: want %s after %v", err, time.Since(began), tt.want, tt.after)
				}
				for i, l := range ls {
					if l.Waiting() != 0 || math.Abs(l.Tokens()-twins[i].Tokens()) > 1e-9 {
						t.Errorf("limiter %d: %v tokens, %d wait: want %v, none", i, l.Tokens(), l.Waiting(), twins[i].Tokens())
					}
				}
			})
		})
	}
}

func withConfig(l *rate.Limiter, cfg rate.Config) *rate.Limiter {
	with := rate.New(quota(l), cfg)
	return with
}

// Several calls at once take of the same limiters in different orders: one may
// be told no because of another that gives back, but nothing is lost, and
// nothing taken twice.
func TestChainLosesNothing(t *testing.T) {
	const burst = 1000
	ls := asTheyAre([]*rate.Limiter{rate.NewLimiter(0, burst), rate.NewLimiter(0, burst/2), rate.NewLimiter(0, burst/4)})
	orders := []weir.Limiter{
		chain(ls...), weir.Chain(ls[2], ls[1], ls[0]), weir.Chain(ls[1], ls[2], ls[0]), weir.Chain(ls[0], ls[2]),
	}
	var taken [4]int
	var all sync.WaitGroup
	for i, m := range orders {
		all.Go(func() {
			for range 4 * burst {
				if allows(t, m, 1) {
					taken[i]++
				}
			}
		})
	}
	all.Wait()
	some := taken[0] + taken[1] + taken[2]
	for i, want := range []int{burst - some - taken[3], burst/2 - some, burst/4 - some - taken[3]} {
		tokens(t, ls[i], float64(want))
	}
	if ls[2].Tokens() != 0 {
		t.Errorf("%v tokens: want the scarcest taken to the last", ls[2].Tokens())
	}
}

func chain(ls ...*rate.Limiter) weir.Limiter {
	all := make([]weir.Limiter, len(ls))
	for i, l := range ls {
		all[i] = l
	}
	return weir.Chain(all...)
}

func allows(t *testing.T, l weir.Limiter, n int) bool {
	_, err := l.Acquire(t.Context(), n)
	return err == nil
}
