package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// stormRules are files of rules that replace each other.
var stormRules = func() []string {
	const base = `
classes:
  - {name: few, routes: /few, limit: 2, queue: 5, max_wait: 1s}
  - {name: own, routes: /own, limit: auto, timeout: 1s}
  - {name: cached, routes: /cached/, cache: {ttl: 1s, stale: 2s}}
  - {name: shadow, routes: /shadow, limit: 3, mode: shadow}
rules: [{name: r, by: address, rate: 150/s, burst: 300, routes: /limited}]
`
	return []string{
		base, base + "total: {limit: auto}\n", base + "total: {limit: 12, queue: 50}\n", base + "tenants: {by: header X-Tenant}\n", base + "mode: shadow\n",
		base + "health_path: /live\nhealth_interval: 1s\n", base + "tenants: {by: header X-Tenant}\ntotal: {limit: 7}\nhealth_path: /live\nhealth_interval: 1s\n",
	}
}()

// upset hangs, kills or restores a random one of the servers; mode has what each does.
func upset(rng *rand.Rand, servers []*server, mode []int) {
	i := rng.IntN(len(servers))
	restore(servers[i], mode[i])
	switch mode[i] = rng.IntN(3); mode[i] {
	case 1:
		servers[i].hang()
	case 2:
		servers[i].kill()
	}
}

func restore(s *server, mode int) {
	switch mode {
	case 1:
		s.goOn()
	case 2:
		s.start()
	}
}

// While origins come and go, files of rules replace each other, an operator changes the limit, and clients leave, each request is
// counted once, and nothing is left over.
func TestStormOverSeveralOrigins(t *testing.T) {
	for seed, initial := range []proxy.Limit{{}, proxy.FixedLimit(20)} {
		synctest.Test(t, func(t *testing.T) {
			rng, servers, mode := rand.New(rand.NewPCG(uint64(seed), 0)), three(), make([]int, 3)
			g := newGroup(map[string]origin{"a": servers[0].serve, "b": servers[1].serve, "c": servers[2].serve})
			p := withRules(t, stormRules[0], proxy.Config{
				Origins: []string{"http://a", "http://b", "http://c"}, Auto: limit.Config{Initial: 10, Min: 1, Max: 1000}, Queue: 100, MaxWait: s, Timeout: 3 * s, LongLived: 40,
				Transport: origin(func(r *http.Request) (*http.Response, error) {
					resp, err := g.RoundTrip(r)
					if err == nil {
						resp.Header.Set("Cache-Control", "max-age=1")
					}
					return resp, err
				}),
			})
			set := func(l proxy.Limit) {
				if err := p.Set(proxy.Change{Limit: &l}); err != nil {
					t.Error(err)
				}
			}
			set(initial)
			go p.CheckOrigins(t.Context())
			var all sync.WaitGroup
			for i := range 5000 {
				if i%150 == 0 {
					p.reload(stormRules[rng.IntN(len(stormRules))])
				}
				if i%170 == 0 {
					upset(rng, servers, mode)
				}
				if i%400 == 399 {
					set([]proxy.Limit{{}, proxy.FixedLimit(15)}[rng.IntN(2)])
				}
				path := []string{"/few", "/own", "/cached/1", "/cached/2", "/shadow", "/limited", "/"}[rng.IntN(7)]
				method, patience, tenant := []string{"GET", "GET", "POST", "PUT"}[rng.IntN(4)], time.Duration(rng.IntN(int(6*s))), fmt.Sprint(rng.IntN(3))
				all.Go(func() {
					ctx, leave := context.WithTimeout(t.Context(), patience)
					defer leave()
					r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("body"))
					r.Header.Set("X-Tenant", tenant)
					p.ServeHTTP(httptest.NewRecorder(), r)
				})
				time.Sleep(time.Duration(rng.IntN(int(16 * time.Millisecond))))
			}
			all.Wait()
			for i := range servers {
				restore(servers[i], mode[i])
			}
			time.Sleep(2 * time.Minute)
			p.countedOnce()
		})
	}
}

// countedOnce expects that nothing is in flight, and that each request has one decision and, if it was admitted, one outcome.
func (p *ruled) countedOnce() {
	p.t.Helper()
	st, r := p.Stats(), p.Report()
	if st.Inflight != 0 || st.Waiting != 0 || st.LongLived != 0 || st.Abandoned != 0 || r.Former != 0 || p.Work().Inflight != 0 || !p.Idle() {
		p.t.Errorf("%+v, %d of former limits, %d at work", st, r.Former, p.Work().Inflight)
	}
	for _, o := range st.Origins {
		if o.Inflight != 0 {
			p.t.Errorf("%s has %d requests in flight", o.URL, o.Inflight)
		}
	}
	for _, c := range r.Classes {
		decided, ended := c.Denied+c.Admitted+c.Cancelled, uint64(0)
		for _, n := range c.Rejected {
			decided += n
		}
		for _, n := range c.Outcomes {
			ended += n
		}
		if ended != c.Admitted || c.Cache == nil && decided != c.Requests || c.Limit != nil && c.Limit.Exchanges != 0 {
			p.t.Errorf("%+v: %d decisions, %d outcomes", c, decided, ended)
		}
	}
}
