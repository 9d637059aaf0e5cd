//go:build system

package external

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// hey sends requests with a number of workers, and returns the number of answers by
// status.
func hey(t *testing.T, requests, workers int, url string) map[int]int {
	t.Helper()
	out := run(t, "hey", "-n", strconv.Itoa(requests), "-c", strconv.Itoa(workers), url)
	counts := map[int]int{}
	for _, line := range regexp.MustCompile(`\[(\d{3})\]\s+(\d+) responses`).FindAllStringSubmatch(out, -1) {
		status, _ := strconv.Atoi(line[1]) // the expression matches digits only
		counts[status], _ = strconv.Atoi(line[2])
	}
	return counts
}

// A rule with n tokens admits exactly n requests, at any concurrency.
func TestHeyGetsItsQuota(t *testing.T) {
	s := newSite(t, httplimit.Config{Rules: []httplimit.Rule{byKey(t, gcra.Per(0, time.Hour, 300))}}, hello)
	server := httptest.NewServer(s)
	defer server.Close()
	if got, want := hey(t, 1000, 20, server.URL), map[int]int{200: 300, 429: 700}; !maps.Equal(got, want) {
		t.Errorf("%v: want %v", got, want)
	}
	if n := s.runs.Load(); n != 300 {
		t.Errorf("the handler has run %d times", n)
	}
}

// The limit of requests in flight is never exceeded; other requests are refused.
func TestHeyKeepsToTheLimit(t *testing.T) {
	lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(3), Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	var running, most atomic.Int64
	refused := make(chan bool) // closed after the first refusal
	s := newSite(t, httplimit.Config{Limiter: lim}, func(_ http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		select { // other requests arrive meanwhile
		case <-refused:
		case <-r.Context().Done():
		}
	})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if lim.Stats().Rejected[weir.OverLimit] > 0 {
			once.Do(func() { close(refused) })
		}
	}))
	defer server.Close()
	got := hey(t, 400, 20, server.URL)
	if got[200]+got[503] != 400 || got[200] == 0 || got[503] == 0 || int64(got[200]) != s.runs.Load() {
		t.Errorf("%v, of which %d ran: want 200 or 503", got, s.runs.Load())
	}
	if most.Load() != 3 {
		t.Errorf("%d ran at once: want 3", most.Load())
	}
}
