//go:build !race

package proxy_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A mixture is an origin of three routes that share a database of ten connections, and its
// clients, which want 660 queries a second of the 250 that it can do.
type mixture struct {
	patience time.Duration
	tries    int
	rules    string // if empty, there is no file
}

var mixed = []struct {
	path    string
	rate    float64
	queries int
}{{"/light", 300, 0}, {"/medium", 270, 1}, {"/heavy", 78, 5}}

// play returns the useful calls of each route, and queries, a second, after a start of ten seconds.
func (m *mixture) play(t *testing.T, seed uint64) (calls [3]float64, queries float64) {
	const runs, measured = 40 * time.Second, 30 * time.Second
	var counts [3]atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		pool := make(chan struct{}, 10)
		cfg := proxy.Config{Queue: 1000, Auto: limit.Config{Max: 10000}, Transport: origin(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Millisecond)
			for _, route := range mixed {
				if route.path != r.URL.Path {
					continue
				}
				for range route.queries {
					pool <- struct{}{}
					time.Sleep(40 * time.Millisecond)
					<-pool
				}
			}
			return answer(200), nil
		})}
		if m.rules != "" {
			cfg.LoadRules = func() (*proxyrule.Rules, error) { return proxyrule.Parse("proxy.yaml", []byte(m.rules)) }
		}
		p := newProxy(t, cfg)
		start := time.Now()
		var all sync.WaitGroup
		for i, route := range mixed {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for time.Since(start) < runs {
					time.Sleep(time.Duration(rng.ExpFloat64() / route.rate * 1e9))
					all.Go(func() {
						if m.served(&all, p, route.path) && time.Since(start) > runs-measured && time.Since(start) <= runs {
							counts[i].Add(1)
						}
					})
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute) // until the last exchanges without a client have ended
	})
	for i, route := range mixed {
		calls[i] = float64(counts[i].Load()) / measured.Seconds()
		queries += calls[i] * float64(route.queries)
	}
	return calls, queries
}

func (m *mixture) served(all *sync.WaitGroup, h http.Handler, path string) bool {
	for range m.tries {
		ctx, leave := context.WithCancel(context.Background())
		answered := make(chan int, 1)
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://proxy.test"+path, nil))
			answered <- w.Code
		})
		patience := time.NewTimer(m.patience)
		code := 0
		select {
		case code = <-answered:
		case <-patience.C:
		}
		patience.Stop()
		leave()
		if code == http.StatusOK {
			return true
		}
	}
	return false
}

// Without a file, the proxy serves what a mixture of cheap and dear routes can do, and the
// cheap one whole.
func TestMixture(t *testing.T) {
	for _, m := range []mixture{
		{patience: time.Second, tries: 1}, {patience: time.Second, tries: 3}, {patience: 2 * time.Second, tries: 1}, {patience: 10 * time.Second, tries: 3},
	} {
		calls, queries := m.play(t, 1)
		if queries < 235 || calls[0] < 290 || calls[2] < 10 {
			t.Errorf("patience of %v, %d tries: %.0f useful queries a second, and calls %.0f: want 235 of 250, and 290, any and 10 calls",
				m.patience, m.tries, queries, calls)
		}
	}
}

// One limit for routes of different cost bears what they can do together, and each route gets its
// part of that: the limit is told the routes.
func TestMixtureOfOneLimit(t *testing.T) {
	for name, rules := range map[string]string{
		"default":           "",
		"class":             "classes: [{name: all, limit: auto, routes: [/light, /medium, /heavy]}]",
		"class of a prefix": "classes: [{name: all, limit: auto, routes: /}]",
		"total": "total: {limit: auto}\nclasses: [{name: a, limit: 1000, routes: /light}, {name: b, limit: 1000, routes: /medium}, " +
			"{name: c, limit: 1000, routes: /heavy}]",
	} {
		for _, m := range []mixture{{patience: time.Second, tries: 1}, {patience: time.Second, tries: 3}} {
			m.rules = rules
			calls, queries := m.play(t, 1)
			t.Logf("%s, %d tries: %.0f useful queries a second, calls %.0f", name, m.tries, queries, calls)
			if queries < 235 || calls[0] < 290 || calls[2] < 20 {
				t.Errorf("%s, %d tries: %.0f useful queries a second, and calls %.0f: want 235 of 250, 290 calls of /light, and 20 of /heavy", name, m.tries, queries, calls)
			}
		}
	}
}
