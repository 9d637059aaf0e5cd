package httpclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
)

// A window allows a number of requests per period, and reports it.
type window struct {
	quota  int
	length time.Duration
	began  time.Time

	mu      sync.Mutex
	number  int // of the window
	used    int
	refused int
	served  int
}

func (w *window) answer(rng func() float64) func(int, *http.Request) (*http.Response, error) {
	return func(int, *http.Request) (*http.Response, error) {
		w.mu.Lock()
		since := time.Since(w.began)
		if n := int(since / w.length); n != w.number {
			w.number, w.used = n, 0
		}
		left := w.length - since%w.length
		field := func() string {
			return fmt.Sprintf(`RateLimit: "w";r=%d;t=%d`, w.quota-w.used, (left+time.Second-1)/time.Second)
		}
		status := 200
		if w.used == w.quota {
			w.refused++
			status = 429
		} else {
			w.used++
			w.served++
		}
		resp := reply(status, field(), fmt.Sprintf(`RateLimit-Policy: "w";q=%d;w=%d`, w.quota, w.length/time.Second))
		w.mu.Unlock()
		time.Sleep(time.Duration(rng() * float64(20*time.Millisecond)))
		return resp, nil
	}
}

// Fifty callers that offer more than the quota use nearly all of it, and are almost
// never refused, although they do not know the quota.
func TestStormOfCallersKeepsToTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		chance := func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return rng.Float64()
		}
		w := &window{quota: 100, length: 10 * s, began: time.Now()}
		tr, _ := newClient(t, Config{Retry: noRetry}, w.answer(chance))
		tr.chance = chance
		ctx, cancel := context.WithTimeout(context.Background(), 100*s)
		defer cancel()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for ctx.Err() == nil {
					_, err := send(tr, get(ctx, host1))
					if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, weir.ErrRejected) {
						t.Error(err)
					}
					if errors.Is(err, weir.ErrRejected) {
						return
					}
				}
			})
		}
		all.Wait()
		t.Logf("%d served, %d refused; %+v", w.served, w.refused, tr.Stats())
		if w.served < 900 || w.refused > w.served/50 {
			t.Errorf("%d served of 1000, %d refused", w.served, w.refused)
		}
	})
}

// A bucket gives a unit each gap, and has room for some. It tells what is left,
// and when all of it is back, in whole seconds.
type bucket struct {
	gap   time.Duration
	room  int
	empty time.Time // when it was, or would have been if nothing overflowed

	mu              sync.Mutex
	served, refused int
}

func (b *bucket) answer(rng func() float64) func(int, *http.Request) (*http.Response, error) {
	return func(int, *http.Request) (*http.Response, error) {
		time.Sleep(time.Duration(rng() * float64(10*ms)))
		b.mu.Lock()
		now, status := time.Now(), 200
		if full := now.Add(-b.gap * time.Duration(b.room)); b.empty.Before(full) {
			b.empty = full
		}
		var headers []string
		if b.empty.Add(b.gap).After(now) {
			b.refused++
			status, headers = 429, []string{"Retry-After: 1"}
		} else {
			b.served++
			b.empty = b.empty.Add(b.gap)
		}
		headers = append(headers, fmt.Sprintf(`RateLimit-Policy: "b";q=%d;w=1`, s/b.gap),
			fmt.Sprintf(`RateLimit: "b";r=%d;t=1`, now.Sub(b.empty)/b.gap))
		b.mu.Unlock()
		time.Sleep(time.Duration(rng() * float64(10*ms)))
		return reply(status, headers...), nil
	}
}

// A quota of a hundred a second, of which 20 at once: callers get nearly all of
// it, however many they are. Callers that begin together are refused once.
func TestStormOfCallersGetsAQuotaOfManyASecond(t *testing.T) {
	for _, callers := range []int{1, 2, 20, 50} {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			var mu sync.Mutex
			chance := func() float64 {
				mu.Lock()
				defer mu.Unlock()
				return rng.Float64()
			}
			b := &bucket{gap: 10 * ms, room: 20}
			tr, _ := newClient(t, Config{}, b.answer(chance))
			tr.chance = chance
			end := time.Now().Add(20 * s)
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for time.Now().Before(end) {
						fetch(tr, host1)
					}
				})
			}
			all.Wait()
			t.Logf("%d callers: %d served, %d refused; %+v", callers, b.served, b.refused, tr.Stats())
			if b.served < 1900 || b.refused > callers {
				t.Errorf("%d callers: %d served of 2020, %d refused", callers, b.served, b.refused)
			}
		})
	}
}

// Requests that wait and end in any order and any way are all answered, and leave
// no state behind.
func TestStormOfCancelledCallers(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			below := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rng.IntN(n)
			}
			lim := new(testrig.Limiter)
			tr, srv := newClient(t, Config{Queue: 30, MaxWait: 20 * s, PerHost: limitBy(lim)}, func(int, *http.Request) (*http.Response, error) {
				time.Sleep(time.Duration(below(500)) * ms)
				switch below(8) {
				case 0:
					return reply(429, fmt.Sprint("Retry-After: ", below(5))), nil
				case 1:
					return reply(503, fmt.Sprint("Retry-After: ", below(5))), nil
				case 2:
					return nil, tooSlow{}
				}
				return reply(200, fmt.Sprintf(`RateLimit: "a";r=%d;t=%d`, below(5), below(5))), nil
			})
			var all sync.WaitGroup
			for range 200 {
				all.Go(func() {
					time.Sleep(time.Duration(below(30_000)) * ms)
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(below(20_000))*ms)
					defer cancel()
					if below(4) == 0 {
						time.AfterFunc(time.Duration(below(5_000))*ms, cancel)
					}
					send(tr, get(ctx, host1))
				})
			}
			all.Wait()
			st := tr.Stats()
			h := tr.hosts.find(hostKey{scheme: "http", host: "one.example"})
			if st.Waiting != 0 || st.Sent != uint64(len(srv.asked)) || h.users.Load() != 0 || lim.Held() != 0 || srv.open.Load() != 0 {
				t.Errorf("%+v, %d users, %s, %d bodies open", st, h.users.Load(), state(lim), srv.open.Load())
			}
			if waits(st) == 0 || st.Refused["paced"] == 0 || st.Retried == 0 {
				t.Errorf("it was no storm: %+v", st)
			}
		})
	}
}
