//go:build system

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

const storeDrainRules = `rules:
  - {name: late, key: late, rate: 10/h, burst: 2, max_wait: 9h}
  - {name: soon, key: soon, rate: 5/s, burst: 1, max_wait: 9s}
  - {name: jobs, key: job, concurrency: {limit: 1, max_wait: 9h}}
`

// SIGTERM while requests wait, for tokens that are reserved in the store and for a lease. Those
// whose turn comes within the grace get it, and the others are refused. Their tokens go back.
func TestStoreDrain(t *testing.T) {
	name := binary(t)
	for _, how := range []string{"finish", "refuse"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			url := "redis://" + redistest.Start(t, "redis-server").Addr
			rules := file(t, "rules.yaml", storeDrainRules)
			other := serving(t, "--rules", rules, "--store", url, "--store-timeout", "2s")
			p := startProcess(t, name, "--rules", rules, "--store", url, "--store-timeout", "2s", "--drain", how, "--grace", "2s")
			p.statuses("/rate/late", 2)
			p.statuses("/rate/soon", 1)
			p.statuses("/lease/job", 1)
			refused := []chan answered{
				p.wait("/rate/late?canWait=true", 1), p.wait("/rate/late?canWait=true", 2), p.wait("/rate/late?canWait=true", 3), p.wait("/lease/job?canWait=true", 4),
			}
			soon := p.wait("/rate/soon?canWait=true", 5)
			p.end()
			for i, w := range refused {
				if a := <-w; a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"reason":"closed"`) {
					t.Errorf("waiter %d: %v: want 503, closed, and Retry-After", i, a)
				}
			}
			want := map[string]int{"finish": http.StatusOK, "refuse": http.StatusServiceUnavailable}[how]
			if a := <-soon; a.status != want {
				t.Errorf("%v: want %d", a, want)
			}
			a := ask(t, http.DefaultClient, "GET", other.admin+"/-/explain?key=late")
			if !strings.Contains(a.body, `"used":2`) {
				t.Errorf("%v: want the tokens of those who were refused to be back", a)
			}
		})
	}
}
