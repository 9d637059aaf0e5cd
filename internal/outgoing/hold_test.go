package outgoing

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

const s = time.Second

func hold(cfg HoldConfig) *Hold {
	if cfg.MaxHold == 0 {
		cfg.MaxHold = time.Hour
	}
	return NewHold(cfg)
}

// A good answer contradicts a server that is not available, but no quota: the
// rest of that is waited for.
func TestQuotaOutlivesOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := hold(HoldConfig{MaxWait: -1, Queue: 10}), time.Now()
		h.Heed(weir.OverRate, 10*s)
		h.Heed(weir.Throttled, 20*s)
		var wg sync.WaitGroup
		wg.Go(func() {
			p, err := h.Wait(t.Context())
			if took := time.Since(began); err != nil || !p.Waited || took < 10*s || took > 11*s {
				t.Errorf("%+v, %v after %v", p, err, took)
			}
		})
		time.Sleep(s)
		h.Good(Pass{})
		soon, cancel := context.WithTimeout(t.Context(), s)
		defer cancel()
		if _, err := h.Wait(soon); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, weir.ErrRejected) {
			t.Errorf("%v: want it told that this is too late", err)
		}
		wg.Wait()
		for range 10 {
			h.Good(Pass{Paced: true})
		}
		if p, err := h.Wait(t.Context()); err != nil || p != (Pass{}) {
			t.Errorf("%+v, %v: want it open", p, err)
		}
	})
}

// Ten good answers to requests that were let out show that all is well; others
// show nothing.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hold(HoldConfig{MaxWait: -1, Queue: 10})
		h.Heed(weir.OverRate, s)
		time.Sleep(2 * s)
		for n := range 9 {
			began := time.Now()
			for range 2 {
				if p, err := h.Wait(t.Context()); err != nil || !p.Paced {
					t.Fatalf("%+v, %v", p, err)
				}
			}
			if took := time.Since(began); took > 2*firstGap>>n || took < firstGap>>n {
				t.Errorf("after %d answers, two take %v", n, took)
			}
			h.Good(Pass{})
			h.Good(Pass{Paced: true})
		}
		if p, err := h.Wait(t.Context()); err != nil || p.Paced {
			t.Errorf("%+v, %v: want it open", p, err)
		}
	})
}

// The reason of a refusal is that of what ends last.
func TestWhy(t *testing.T) {
	for _, tt := range []struct {
		rate, load time.Duration
		want       weir.Reason
	}{
		{10 * s, 0, weir.OverRate},
		{0, 10 * s, weir.Throttled},
		{10 * s, 20 * s, weir.Throttled},
		{20 * s, 10 * s, weir.OverRate},
		{weir.Never, 0, weir.OverRate},
	} {
		h := hold(HoldConfig{MaxWait: s, Queue: 1, MaxHold: weir.Never})
		h.Heed(weir.OverRate, tt.rate)
		h.Heed(weir.Throttled, tt.load)
		_, err := h.Wait(t.Context())
		if why, ok := errors.AsType[*weir.Rejection](err); !ok || why.Reason != tt.want || why.RetryAfter < min(max(tt.rate, tt.load), forever)-s {
			t.Errorf("%v and %v: %v, want %v", tt.rate, tt.load, err, tt.want)
		}
	}
}

// A hold holds until the time that the server has named, not while requests go
// one after the other thereafter.
func TestHolds(t *testing.T) {
	for _, why := range []weir.Reason{weir.OverRate, weir.Throttled} {
		synctest.Test(t, func(t *testing.T) {
			h := hold(HoldConfig{MaxWait: -1, Queue: 1})
			if h.Holds() {
				t.Error("it holds, although the server wants nothing")
			}
			h.Heed(why, 10*s)
			if time.Sleep(10*s - 1); !h.Holds() {
				t.Errorf("%v: it does not hold", why)
			}
			if p, err := h.Wait(t.Context()); err != nil || !p.Waited || h.Holds() {
				t.Errorf("%v: %+v, %v, holds: %v", why, p, err, h.Holds())
			}
		})
	}
}

// Who comes while others wait goes after them, even if it is time to go.
func TestNoOvertaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hold(HoldConfig{MaxWait: s, Queue: 2})
		h.Heed(weir.OverRate, s)
		time.Sleep(2 * s)
		h.waiting = 1 // one whose time has come, and who has not noticed
		if went, err := h.join(t.Context()); went || err != nil || h.waiting != 2 {
			t.Errorf("%v, %v, %d wait", went, err, h.waiting)
		}
		h.waiting = 0
		if went, err := h.join(t.Context()); !went || err != nil {
			t.Errorf("%v, %v: want it let out, since nobody waits", went, err)
		}
	})
}

// Clients who were told the same come back at different times: up to a tenth
// later, and a second at most.
func TestSpread(t *testing.T) {
	for _, tt := range []struct{ said, most time.Duration }{{5 * s, 500 * time.Millisecond}, {60 * s, s}} {
		synctest.Test(t, func(t *testing.T) {
			least, most := time.Hour, time.Duration(0)
			for range 200 {
				h, began := hold(HoldConfig{MaxWait: -1, Queue: 1}), time.Now()
				h.Heed(weir.OverRate, tt.said)
				_, _ = h.Wait(t.Context())
				took := time.Since(began) - tt.said
				least, most = min(least, took), max(most, took)
			}
			if least < 0 || least > tt.most/10 || most < tt.most*9/10 || most > tt.most {
				t.Errorf("%v: %v to %v more: want up to %v", tt.said, least, most, tt.most)
			}
		})
	}
}

// In a storm of callers, some of whom leave, nobody goes out while a quota is
// used up, nobody is lost, and the last is let in.
func TestStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			h, began := hold(HoldConfig{MaxWait: 5 * s, Queue: 20}), time.Now()
			var mu sync.Mutex           // guards what follows
			var shut [][2]time.Duration // from, to
			sent, refused := 0, 0
			var wg sync.WaitGroup
			for range 300 {
				time.Sleep(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
				say, wait, patience := r.IntN(10), time.Duration(r.Int64N(int64(3*s))), time.Duration(r.Int64N(int64(10*s)))
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					p, err := h.Wait(ctx)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						refused++
						return
					}
					sent++
					now := time.Since(began)
					for _, s := range shut {
						if now > s[0] && now < s[1] { // at the first instant, it may have been out before
							t.Errorf("seed %d: out at %v, within %v", seed, now, s)
						}
					}
					switch say {
					case 0:
						shut = append(shut, [2]time.Duration{now, now + wait})
						h.Heed(weir.OverRate, wait)
					case 1:
						h.Heed(weir.Throttled, wait)
					default:
						h.Good(p)
					}
				})
			}
			wg.Wait()
			if n := h.Waiting(); n != 0 || len(h.turn) != 0 || sent+refused != 300 || sent < 10 || refused == 0 {
				t.Errorf("seed %d: %d wait, %d sent, %d refused", seed, n, sent, refused)
			}
			time.Sleep(time.Minute)
			if _, err := h.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
