package outgoing

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pacing"
	"github.com/weir-go/weir/internal/ratelimitfield"
	"github.com/weir-go/weir/internal/waitq"
)

const s = time.Second

func none() float64 { return 0 }

// wait has the server ask for a wait of d, because of a used-up quota or of an
// overload.
func (q *Queue) wait(why weir.Reason, d time.Duration) {
	q.Answer(&pacing.Answer{Overload: true, Busy: why == weir.Throttled, Refused: why == weir.OverRate, Waits: true, After: d})
}

// A request that is cancelled by its caller leaves the queue, and a unit of the quota
// that it got at the same instant goes to the next request.
func TestCancelledTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // of two events at once, select takes either
			q := NewQueue(Config{}, none)
			left := func(number uint64, n int64) {
				q.Answer(&pacing.Answer{Number: number, Limits: []ratelimitfield.ServiceLimit{{Name: "a", Remaining: n, Reset: 9 * s}}})
			}
			first, _, _ := q.Wait(t.Context())
			second, _, _ := q.Wait(t.Context())
			left(first, 0)
			time.Sleep(2 * s)
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			var sent atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, _, err := q.Wait(ctx); err != context.Canceled {
					sent.Store(true)
				}
			})
			synctest.Wait()
			wg.Go(func() {
				if _, _, err := q.Wait(t.Context()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			left(second, 1)
			cancel()
			wg.Wait()
			if took := time.Since(began); took > 0 && !sent.Load() || q.Waiting() != 0 {
				t.Fatalf("took %v, %d wait", took, q.Waiting())
			}
		}
	})
}

// A deadline before the end of the wait is told at once.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Config{MaxWait: -1}, none)
		q.wait(weir.OverRate, 10*s)
		for _, timeout := range []time.Duration{s, 10 * s} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			_, waited, err := q.Wait(ctx)
			if r, ok := errors.AsType[*weir.Rejection](err); !ok || r.Reason != weir.TooLate || r.RetryAfter != 10*s || waited >= 0 {
				t.Errorf("%v: %v, waited %v: want too_late at once", timeout, err, waited)
			}
			cancel()
		}
	})
}

// Renew lets a request go unless the server has asked for a wait meanwhile.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Config{}, none)
		number, _, err := q.Wait(t.Context())
		if err != nil || !q.Renew(&number) {
			t.Errorf("%v: want it let go", err)
		}
		q.wait(weir.Throttled, s)
		if q.Renew(&number) || q.Idle() {
			t.Error("want it held")
		}
		time.Sleep(s)
		if !q.Renew(&number) {
			t.Error("want it let go after the wait")
		}
	})
}

// A newcomer does not overtake a request that waits, even when it is time to go.
func TestNoOvertaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(Config{}, none)
		q.wait(weir.OverRate, s)
		q.mu.Lock()
		w := &waiter{until: pacing.MaxWait, call: waitq.NewCall[verdict]()}
		w.place = q.queue.PushBack(w) // its timer has not fired yet
		q.mu.Unlock()
		time.Sleep(2 * s)
		if _, newcomer, err := q.enter(t.Context(), q.now()); newcomer == nil || err != nil || w.place != nil {
			t.Errorf("%v, %v: want the first request let go, and the newcomer queued", newcomer, err)
		}
	})
}

// In a storm of requests, some of them cancelled, none is sent while a quota is
// used up, none is lost, and after it requests are sent at once.
func TestStorm(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			q, began := NewQueue(Config{MaxWait: 5 * s, Queue: 20, MaxHold: time.Hour}, rand.Float64), time.Now()
			var mu sync.Mutex           // guards what follows
			var shut [][2]time.Duration // from, to
			sent, refused := 0, 0
			var wg sync.WaitGroup
			for range 300 {
				time.Sleep(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
				answer, wait, patience := r.IntN(10), time.Duration(r.Int64N(int64(3*s))), time.Duration(r.Int64N(int64(10*s)))
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					number, _, err := q.Wait(ctx)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						refused++
						return
					}
					sent++
					now := time.Since(began)
					for _, s := range shut {
						if now > s[0] && now < s[1] { // at the first instant, it may have been sent before
							t.Errorf("seed %d: sent at %v, within %v", seed, now, s)
						}
					}
					switch answer {
					case 0:
						shut = append(shut, [2]time.Duration{now, now + wait})
						q.wait(weir.OverRate, wait)
					case 1:
						q.wait(weir.Throttled, wait)
					default:
						q.Answer(&pacing.Answer{Number: number})
					}
				})
			}
			wg.Wait()
			if n := q.Waiting(); n != 0 || sent+refused != 300 || sent < 10 || refused == 0 {
				t.Errorf("seed %d: %d wait, %d sent, %d refused", seed, n, sent, refused)
			}
			time.Sleep(time.Minute)
			if _, _, err := q.Wait(t.Context()); err != nil || !q.Idle() && q.Waiting() != 0 {
				t.Error(err)
			}
		})
	}
}
