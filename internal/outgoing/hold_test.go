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

// In a storm of callers, some of whom leave, nobody goes out while a quota is
// used up, nobody is lost, and the last is let in.
func TestStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			h, began := hold(HoldConfig{MaxWait: 5 * s, Queue: 20}), time.Now()
			var mu sync.Mutex // guards what follows
			var shut time.Duration
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
					if now := time.Since(began); now < shut {
						t.Errorf("seed %d: out at %v, before %v", seed, now, shut)
					}
					switch say {
					case 0:
						shut = max(shut, time.Since(began)+wait)
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
