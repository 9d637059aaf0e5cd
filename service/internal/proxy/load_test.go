package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// A pod is an origin with workers and an unbounded queue. It continues work after its client
// has left.
type pod chan struct{}

const (
	podWorkers = 20
	podTakes   = 50 * time.Millisecond
	podServes  = podWorkers * int(time.Second/podTakes) // requests a second
)

func newPod() pod { return make(pod, podWorkers) }

func (p pod) RoundTrip(r *http.Request) (*http.Response, error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p <- struct{}{}
		defer func() { <-p }()
		time.Sleep(podTakes)
	}()
	select {
	case <-done:
		return answer(http.StatusOK), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// A tally counts answers.
type tally struct {
	sync.Mutex
	sent, ok int
}

// ask sends a request, and reports whether it was served.
func (a *tally) ask(ctx context.Context, p *proxy.Proxy) (ok bool) {
	ok = ask(ctx, p).Code == http.StatusOK
	a.Lock()
	defer a.Unlock()
	a.sent++
	if ok {
		a.ok++
	}
	return ok
}

// A hundred clients, each of which waits for its answer, are all served by an origin
// that keeps up with them, though they wait in the proxy's queue.
func TestAClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Limit: proxy.FixedLimit(podWorkers), Queue: inflight.DefaultQueue, Transport: newPod()})
		const d = 10 * time.Second
		var all sync.WaitGroup
		var f tally
		began := time.Now()
		for range 100 {
			all.Go(func() {
				for time.Since(began) < d && f.ask(t.Context(), p) {
				}
			})
		}
		all.Wait()
		if want := podServes * int(d/time.Second); f.ok != f.sent || f.ok < want {
			t.Errorf("%d of %d served: want all, and at least %d", f.ok, f.sent, want)
		}
	})
}

// One pod of seven answers 503 at once, at half load: the use of the others does not change.
func TestOneBadPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pods [6]pod
		for i := range pods {
			pods[i] = newPod()
		}
		var mu sync.Mutex
		turn := 0
		p := newProxy(t, proxy.Config{Auto: limit.Config{Initial: 10, Max: 10_000}, Queue: inflight.DefaultQueue, Transport: origin(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			turn++
			i := turn % 7
			mu.Unlock()
			if i < len(pods) {
				return pods[i].RoundTrip(r)
			}
			return answer(http.StatusServiceUnavailable), nil
		})})
		const rate, d = 7 * podServes / 2, 5 * time.Second
		load := func() (ok, sent int) {
			var all sync.WaitGroup
			var f tally
			for range rate * int(d/time.Second) {
				all.Go(func() { f.ask(t.Context(), p) })
				time.Sleep(time.Second / time.Duration(rate))
			}
			all.Wait()
			return f.ok, f.sent
		}
		load() // to find the limit
		if ok, sent := load(); ok < sent*6/7 {
			t.Errorf("%d of %d served: want six in seven; the limit is %d", ok, sent, p.Stats().Limit)
		}
	})
}

// Immediate answers 429 for one key do not affect other keys: their requests are served by
// a pod below its capacity.
func TestOneKeysQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := newPod()
		p := newProxy(t, proxy.Config{Auto: limit.Config{Initial: 10, Max: 10_000}, Queue: inflight.DefaultQueue, Transport: origin(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/greedy" {
				return answer(http.StatusTooManyRequests), nil
			}
			return others.RoundTrip(r)
		})})
		send := func(path string, rate int, codes map[int]int) {
			var all sync.WaitGroup
			var mu sync.Mutex
			for range 10 * rate { // ten seconds
				all.Go(func() {
					w := httptest.NewRecorder()
					p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
					mu.Lock()
					defer mu.Unlock()
					codes[w.Code]++
				})
				time.Sleep(time.Second / time.Duration(rate))
			}
			all.Wait()
		}
		greedy, served := map[int]int{}, map[int]int{}
		var both sync.WaitGroup
		both.Go(func() { send("/greedy", 5*podServes, greedy) })
		both.Go(func() { send("/", podServes*8/10, served) })
		both.Wait()
		if len(served) != 1 || len(greedy) != 1 || served[200] == 0 || greedy[429] == 0 {
			t.Errorf("the key %v, others %v: want 429 for all of the key, and 200 for all others; the limit is %d", greedy, served, p.Stats().Limit)
		}
	})
}
