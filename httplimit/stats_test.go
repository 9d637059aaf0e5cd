package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
)

// Every request is counted once, and tokens are neither lost nor made.
func TestEachRequestIsCountedOnce(t *testing.T) {
	const clients, each, burst = 8, 400, 1 << 20
	lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(2), Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	all := allowAt(t, "all", gcra.Per(1, 1000*time.Hour, burst))
	few := allowAt(t, "few", gcra.Per(1, 1000*time.Hour, each))
	s := newSite(t, Config{
		Rules:    []Rule{all.Cost(byHeader), few.Cost(byHeader)},
		PerClass: func(string) weir.Limiter { return lim },
		Class:    func(r *http.Request) string { return r.URL.Path },
	}, func(w http.ResponseWriter, r *http.Request) {
		runtime.Gosched()
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	})
	var done sync.WaitGroup
	var sums [clients]int
	for n := range clients {
		done.Go(func() {
			for range each {
				cost := rand.IntN(4)
				path := []string{"/a", "/b", "/panic", "/healthz"}[rand.IntN(4)]
				r := testrig.Request("GET", path, fmt.Sprint("X-Client: ", n), fmt.Sprint("Cost: ", cost))
				let := false
				func() {
					defer func() { let = recover() != nil || let }()
					let = s.do(r).Code == 200
				}()
				if let && path != "/healthz" {
					sums[n] += cost
				}
			}
		})
	}
	done.Wait()
	st := s.Stats()
	sum := st.Exempt
	for _, c := range st.Classes {
		sum += c.Admitted + total(c.Refused)
		if total(c.Outcomes) != c.Admitted || c.Limiter == nil || c.Limiter.Inflight != 0 {
			t.Errorf("%+v: want as many outcomes as were admitted", c)
		}
	}
	if sum != clients*each {
		t.Errorf("%d requests are counted: want %d", sum, clients*each)
	}
	for n, spent := range sums {
		all.left(t, fmt.Sprint(n), burst-spent, "at the end")
		few.left(t, fmt.Sprint(n), each-spent, "at the end")
	}
}
