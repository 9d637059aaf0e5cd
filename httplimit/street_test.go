//go:build !race

package httplimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A street is a service of routes that share a database, and its clients.
type street struct {
	routes   []route
	patience time.Duration // after which clients leave
	tries    int           // of a client, at once after a failure
	goesOn   bool          // the work goes on after its client has left
	hidden   bool          // a handler is in between, and no handler tells the route
	one      bool          // there is one limit for all routes
}

type route struct {
	path    string
	rate    float64 // calls a second
	queries int     // of each call, one after the other
}

const (
	connections = 10
	query       = 40 * time.Millisecond
	runs        = 30 * time.Second // of a run, of which
	measured    = 20 * time.Second // is measured, at the end
)

// three offers 660 queries a second to a database that serves 250.
var three = []route{{"/light", 300, 0}, {"/medium", 270, 1}, {"/heavy", 78, 5}}

// play returns the useful calls a second of each route, and the queries that these made.
func (s *street) play(t *testing.T, perClass func(string) weir.Limiter) (calls []float64, queries float64) {
	t.Helper()
	counts := make([]atomic.Int64, len(s.routes))
	synctest.Test(t, func(t *testing.T) {
		cfg := httplimit.Config{PerClass: perClass}
		if s.one {
			cfg = httplimit.Config{Limiter: perClass("")}
		}
		m, err := httplimit.New(cfg)
		testrig.Must(t, err)
		h := m.Handler(s.handler())
		start := time.Now()
		var all sync.WaitGroup
		for i, r := range s.routes {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			all.Go(func() {
				for time.Since(start) < runs {
					time.Sleep(time.Duration(rng.ExpFloat64() / r.rate * 1e9))
					all.Go(func() {
						if s.served(&all, h, r.path) && time.Since(start) > runs-measured && time.Since(start) <= runs {
							counts[i].Add(1)
						}
					})
				}
			})
		}
		all.Wait()
	})
	for i, r := range s.routes {
		calls = append(calls, float64(counts[i].Load())/measured.Seconds())
		queries += calls[i] * float64(r.queries)
	}
	return calls, queries
}

// handler returns the handlers behind the middleware.
func (s *street) handler() http.Handler {
	next := s.service()
	if !s.hidden {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, r.Clone(r.Context())) })
}

// service waits for connections as database/sql does: in order and, unless the work goes on
// without its client, with the context of the request.
func (s *street) service() http.Handler {
	pool := make(chan struct{}, connections)
	mux := http.NewServeMux()
	for _, r := range s.routes {
		mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) {
			time.Sleep(100 * time.Microsecond)
			left := req.Context().Done()
			if s.goesOn {
				left = nil
			}
			for range r.queries {
				select {
				case pool <- struct{}{}:
					time.Sleep(query)
					<-pool
				case <-left:
				}
				if left != nil && req.Context().Err() != nil {
					http.Error(w, req.Context().Err().Error(), http.StatusInternalServerError)
					return
				}
			}
			fmt.Fprintln(w, "ok")
		})
	}
	return mux
}

// served reports whether a client got what it wanted, in one of its tries.
func (s *street) served(all *sync.WaitGroup, h http.Handler, path string) bool {
	for range s.tries {
		ctx, leave := context.WithCancel(context.Background())
		answered := make(chan int, 1)
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, nil))
			answered <- w.Code
		})
		patience := time.NewTimer(s.patience)
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

// check compares Auto with fixed limits for each route: it has 0.94 of the queries of the
// best of them, and no route has less than half of what it has there.
func (s *street) check(t *testing.T, fixed ...int) {
	best, calls := 0.0, []float64(nil)
	for _, n := range fixed {
		c, q := s.play(t, func(string) weir.Limiter {
			l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(n), Depth: 3})
			testrig.Must(t, err)
			return l
		})
		if q > best {
			best, calls = q, c
		}
	}
	got, queries := s.play(t, httplimit.Auto)
	t.Logf("%.0f queries/s, calls %.3g/s; fixed: %.0f, %.3g", queries, got, best, calls)
	if queries < 0.94*best {
		t.Errorf("%.0f queries/s: want 0.94 of %.0f", queries, best)
	}
	for i, r := range s.routes {
		if got[i] < calls[i]/2 {
			t.Errorf("%s: %.3g/s: want half of %.3g", r.path, got[i], calls[i])
		}
	}
}

// Routes of different cost share a database, and clients leave. The limits are not told how
// long they wait.
func TestStreet(t *testing.T) {
	for name, s := range map[string]street{
		"a second":                            {routes: three, patience: time.Second, tries: 1},
		"a second, three tries, work goes on": {routes: three, patience: time.Second, tries: 3, goesOn: true},
		"half a second, three tries":          {routes: three, patience: time.Second / 2, tries: 3},
		"a second, hidden routes":             {routes: three, patience: time.Second, tries: 1, hidden: true},
		"half a second, hidden, three tries":  {routes: three, patience: time.Second / 2, tries: 3, goesOn: true, hidden: true},
		"one route, 300 ms, the work goes on": {routes: []route{{"/two", 300, 2}}, patience: 300 * time.Millisecond, tries: 1, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) { s.check(t, 8, 12) })
	}
}

// One limit for all routes bears what they can do together. The cheap one is served whole, and each
// of the others gets its part of the rest.
func TestStreetOfOneLimit(t *testing.T) {
	for name, s := range map[string]street{
		"a second":                                {patience: time.Second, tries: 1},
		"half a second":                           {patience: time.Second / 2, tries: 1},
		"half a second, three tries, hidden":      {patience: time.Second / 2, tries: 3, hidden: true},
		"a second, three tries, the work goes on": {patience: time.Second, tries: 3, goesOn: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.routes, s.one = three, true
			calls, queries := s.play(t, httplimit.Auto)
			t.Logf("%.0f queries/s, calls %.3g/s", queries, calls)
			if queries < 235 || calls[0] < 290 || calls[2] < 20 {
				t.Errorf("%.0f queries/s, calls %.3g/s: want 235 of 250, 290 calls of /light, and 20 of /heavy", queries, calls)
			}
		})
	}
}
