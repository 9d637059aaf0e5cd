package inflight_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/servicetime"
	"github.com/weir-go/weir/limit"
)

// A costBook is a fixed limit that keeps the cost of the last work of each duration.
type costBook struct {
	limit.Algorithm
	of map[time.Duration]float64
}

func (b costBook) Observe(s limit.Sample) limit.Cause {
	b.of[s.End-s.Start] = s.Cost
	return limit.Kept
}

// An algorithm is told how long work of a route takes, relative to all, whether it was admitted at
// once or waited, and not if no request names its route.
func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		name        string
		units       int
		cheap, dear string
		want        [2]float64
	}{
		{"at once", 9, "GET /a", "GET /b", [2]float64{0.5, 1.5}},
		{"after a wait", 1, "GET /a", "GET /b", [2]float64{0.5, 1.5}},
		{"without routes", 9, "", "", [2]float64{1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book := costBook{limit.Fixed(tt.units), map[time.Duration]float64{}}
				l := newLimiter(t, inflight.Config{Algorithm: book})
				work := func(route string, d time.Duration) {
					p, err := l.Acquire(weir.WithClass(context.Background(), weir.Class{Route: route}), 1)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(d)
					p.Release(weir.Success)
				}
				for range 20 {
					go work(tt.cheap, 10*time.Millisecond)
					go work(tt.dear, 30*time.Millisecond)
					time.Sleep(time.Second)
				}
				synctest.Wait()
				cheap, dear := book.of[10*time.Millisecond], book.of[30*time.Millisecond]
				if math.Abs(cheap-tt.want[0]) > 0.05 || math.Abs(dear-tt.want[1]) > 0.05 {
					t.Errorf("costs %.2f and %.2f: want %v", cheap, dear, tt.want)
				}
			})
		})
	}
}

// A route with work that is much shorter than the mean takes the place of another request in a full
// queue, also where tenants do not matter.
func TestCheapRouteInAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, inflight.Config{Algorithm: limit.Fixed(1), Queue: 2, FairQueues: 1, Discipline: inflight.FIFO})
		ask := func(route string) error {
			p, err := l.Acquire(weir.WithClass(t.Context(), weir.Class{Route: route}), 1)
			if err == nil {
				if route == "dear" {
					time.Sleep(100 * time.Millisecond)
				}
				p.Release(weir.Success)
			}
			return err
		}
		for range 10 {
			_, _ = ask("dear"), ask("cheap")
		}
		refused := make(chan error, 4)
		for range 4 {
			go func() { refused <- ask("dear") }()
			synctest.Wait()
		}
		if err := ask("cheap"); err != nil {
			t.Errorf("a cheap request: %v: want it admitted", err)
		}
		n := 0
		for range cap(refused) {
			if <-refused != nil {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d of 4 dear requests refused: want the last one, and the one whose place was taken", n)
		}
	})
}

// Hundreds of routes have a number each, also if they come at the same time. Later ones share them.
func TestRoutesAreApart(t *testing.T) {
	l := newLimiter(t, inflight.Config{})
	const routes = 300
	numbers := make([]int, routes)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range routes {
				l.Route(fmt.Sprint("GET /", i))
			}
		})
	}
	all.Wait()
	for i := range numbers {
		numbers[i] = l.Route(fmt.Sprint("GET /", i))
	}
	first := numbers[0]
	slices.Sort(numbers)
	if n := len(slices.Compact(slices.Clone(numbers))); n != routes || numbers[0] < 1 {
		t.Errorf("%d numbers from %d for %d routes", n, numbers[0], routes)
	}
	for i := range 5000 {
		if n := l.Route(fmt.Sprint("POST /", i)); n < 1 || n > servicetime.MaxRoutes {
			t.Fatalf("a route has the number %d", n)
		}
	}
	if n := l.Route("GET /0"); n != first || l.Route("") != 0 {
		t.Errorf("GET /0 has the number %d now: want %d as before", n, first)
	}
}
