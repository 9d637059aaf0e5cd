package rate_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/rate"
)

// three are 10 a second, 1 a second and 1 an hour.
func three() []*rate.Limiter {
	return []*rate.Limiter{rate.NewLimiter(10, 3), rate.NewLimiter(1, 5), rate.NewLimiter(rate.Every(time.Hour), 8)}
}

func TestMultiTake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ls := three()
		m := rate.All(ls...)
		yes := func(remaining int, reset time.Duration) weir.Decision {
			return weir.Decision{OK: true, Remaining: remaining, ResetAfter: reset}
		}
		no := func(remaining int, retry, reset time.Duration) weir.Decision {
			return weir.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
		}
		for i, s := range []struct {
			sleep time.Duration
			n     int
			want  weir.Decision
			binds int
			left  [3]float64
		}{
			{0, 0, yes(3, 0), 0, [3]float64{3, 5, 8}},
			{0, 6, no(3, weir.Never, 0), 0, [3]float64{3, 5, 8}}, // of several with Never the first
			{0, 2, yes(1, 2*time.Hour), 0, [3]float64{1, 3, 6}},
			{0, 2, no(1, tick, 2*time.Hour), 0, [3]float64{1, 3, 6}},
			{0, 0, yes(1, 2*time.Hour), 0, [3]float64{1, 3, 6}},
			{2 * tick, 3, yes(0, 5*time.Hour-2*tick), 0, [3]float64{0, 0.2, 3 + 0.2/3600}},
			{0, 1, no(0, 8*tick, 5*time.Hour-2*tick), 1, [3]float64{0, 0.2, 3 + 0.2/3600}},
			{time.Second, 2, no(1, 8*tick, 5*time.Hour-12*tick), 1, [3]float64{3, 1.2, 3 + 1.2/3600}},
			{9 * time.Second, 3, yes(0, 8*time.Hour-102*tick), 0, [3]float64{0, 2, 10.2 / 3600}},
			{time.Minute, 1, no(0, time.Hour-702*tick, 8*time.Hour-702*tick), 2, [3]float64{3, 5, 70.2 / 3600}},
			{0, 4, no(0, weir.Never, 8*time.Hour-702*tick), 0, [3]float64{3, 5, 70.2 / 3600}},
		} {
			time.Sleep(s.sleep)
			d, binds := m.Take(s.n)
			if d != s.want || binds != s.binds {
				t.Errorf("step %d: %+v, %d: want %+v, %d", i, d, binds, s.want, s.binds)
			}
			for j, l := range ls {
				if math.Abs(l.Tokens()-s.left[j]) > 1e-9 {
					t.Errorf("step %d: limiter %d has %v tokens: want %v", i, j, l.Tokens(), s.left[j])
				}
			}
		}
	})
}

// Which one binds does not depend on the order.
func TestMultiBinds(t *testing.T) {
	ls := three()
	for i, order := range [][]*rate.Limiter{{ls[0], ls[1], ls[2]}, {ls[1], ls[0], ls[2]}, {ls[2], ls[1], ls[0]}} {
		if d, binds := rate.All(order...).Take(1); binds != i || d.Remaining != 2-i {
			t.Errorf("%+v, %d: want %d", d, binds, i)
		}
	}
}

func TestMultiOfNone(t *testing.T) {
	m := rate.All()
	if d, binds := m.Take(5); !d.OK || d.Remaining != math.MaxInt || d.RetryAfter != 0 || d.ResetAfter != 0 || binds != -1 {
		t.Errorf("%+v, %d: want it to allow everything", d, binds)
	}
	if i, err := m.Wait(t.Context(), 5); i != -1 || err != nil {
		t.Errorf("%d, %v", i, err)
	}
	p, err := m.Acquire(t.Context(), 5)
	if p.Use(7); err != nil || !allowAll(m) {
		t.Errorf("%v", err)
	}
}

// The caller's slice is the caller's.
func TestMultiKeepsItsOwnList(t *testing.T) {
	ls := []*rate.Limiter{rate.NewLimiter(0, 1)}
	m := rate.All(ls...)
	ls[0] = rate.NewLimiter(rate.Inf, 0)
	if !allowAll(m) || allowAll(m) {
		t.Error("want one event")
	}
}

// A limiter twice must have enough for both: if not, it gives all back.
func TestMultiOfTheSameTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 3)
		m := rate.All(l, l)
		if d, binds := m.Take(2); d.OK || binds != 1 {
			t.Errorf("%+v, %d: want the second to deny", d, binds)
		}
		tokens(t, l, 3)
		if i, err := m.Wait(t.Context(), 2); err != nil {
			t.Errorf("%d, %v", i, err)
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

func TestMultiWaitsForTheLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ls := three()
		m := rate.All(ls...)
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 0, tick, 2 * tick, time.Second, 2 * time.Second, 3 * time.Second, time.Hour} {
			if j, err := m.Wait(t.Context(), 1); j != -1 || err != nil || time.Since(began) != want {
				t.Errorf("event %d: %d, %v after %v: want %v", i, j, err, time.Since(began), want)
			}
		}
	})
}

// If one refuses, or the context ends, the others are as if there had been no call:
// the ones that granted have their tokens back, the queues of the others move on.
func TestMultiWaitOfNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		taken  [3]int // before
		n      int
		cfg    rate.Config // of the last
		within time.Duration
		want   string
		which  int
		after  time.Duration
	}{
		"over the burst of the first":        {[3]int{}, 4, rate.Config{}, 0, "over_burst", 0, 0},
		"too late for the last":              {[3]int{3, 0, 8}, 1, rate.Config{}, time.Minute, "too_late", 2, 0},
		"too late for the second":            {[3]int{3, 5, 8}, 1, rate.Config{}, tick, "too_late", 1, 0},
		"nobody waits for the last":          {[3]int{3, 4, 8}, 1, rate.Config{Queue: -1}, 0, "over_rate", 2, 0},
		"the context ends, for the first":    {[3]int{3, 5, 8}, 1, rate.Config{}, -tick / 2, "cancel", 0, tick / 2},
		"the context ends, for the second":   {[3]int{3, 5, 8}, 1, rate.Config{}, -tick * 2, "cancel", 1, tick * 2},
		"the context ends, for the last":     {[3]int{3, 0, 8}, 1, rate.Config{}, -time.Minute, "cancel", 2, time.Minute},
		"the context has ended":              {[3]int{}, 1, rate.Config{}, -1, "cancel", 0, 0},
		"the context has ended, first empty": {[3]int{3, 0, 0}, 1, rate.Config{}, -1, "cancel", 0, 0},
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
				which, err := rate.All(ls...).Wait(ctx, tt.n)
				if what(err) != tt.want || which != tt.which || time.Since(began) != tt.after {
					t.Errorf("%d: %v after %v: want %d: %s after %v", which, err, time.Since(began), tt.which, tt.want, tt.after)
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

// Calls that wait for one limiter go as soon as a call that waits for several leaves.
func TestMultiLeaverMovesOthersForward(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fast, slow := rate.NewLimiter(10, 2), rate.NewLimiter(0.1, 1)
		slow.Allow()
		fast.AllowN(time.Now(), 2)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			if which, err := rate.All(fast, slow).Wait(ctx, 1); which != 0 || err != context.Canceled {
				t.Errorf("%d, %v: want it to leave the first line", which, err)
			}
		}()
		synctest.Wait()
		q := newLine(t, fast)
		q.join("a", 1)
		q.join("b", 2)
		s := newLine(t, slow)
		s.join("c", 1)
		time.Sleep(tick / 2)
		leave()
		time.Sleep(time.Minute)
		q.expect("a go 100ms", "b go 300ms")
		s.expect("c go 10s")
	})
}

// A turn that has come in one line, while another one is still waited for,
// passes on to the next when the context ends.
func TestMultiLeaverGivesBackWhatItWasGranted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow, fast := rate.NewLimiter(0.1, 1), rate.NewLimiter(10, 1)
		slow.Allow()
		fast.Allow()
		ctx, leave := context.WithCancel(t.Context())
		go func() { _, _ = rate.All(slow, fast).Wait(ctx, 1) }()
		synctest.Wait()
		q := newLine(t, fast)
		q.join("a", 1)
		time.Sleep(tick * 3 / 2)
		leave()
		time.Sleep(time.Minute)
		q.expect("a go 150ms")
	})
}

// Several calls at once take of the same limiters in different orders: one may
// be told no because of another that gives back, but nothing is lost, and
// nothing taken twice.
func TestMultiLosesNothing(t *testing.T) {
	const burst = 1000
	ls := []*rate.Limiter{rate.NewLimiter(0, burst), rate.NewLimiter(0, burst/2), rate.NewLimiter(0, burst/4)}
	orders := []*rate.Multi{
		rate.All(ls...), rate.All(ls[2], ls[1], ls[0]), rate.All(ls[1], ls[2], ls[0]), rate.All(ls[0], ls[2]),
	}
	var taken [4]int
	var all sync.WaitGroup
	for i, m := range orders {
		all.Go(func() {
			for range 4 * burst {
				if allowAll(m) {
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

func allowAll(m *rate.Multi) bool {
	d, _ := m.Take(1)
	return d.OK
}
