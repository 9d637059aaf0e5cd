package proxy_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/proxy"
)

// The file selects the names of the parameters of RateLimit.
func TestFieldsOfALaterDraft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "fields: draft_next\nrules: [{name: clients, by: address, rate: 5/h}]\n", proxy.Config{Transport: answers(200, s)})
		if got := p.expect("/", 200, "").Header().Get("RateLimit"); !strings.HasPrefix(got, `"clients";a=4;w=`) {
			t.Errorf("RateLimit: %s", got)
		}
	})
}

// A request takes a token of each rule that applies, or of none: a rule or a limit that
// refuses it gives the others theirs back.
func TestRulesAreAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
rules:
- {name: clients, by: [header X-Api-Key, address], rate: 5/h}
- {name: logins, by: address, rate: 2/h, routes: POST /login}
classes:
- {name: reports, routes: /reports/, limit: 1, queue: 0}
`, proxy.Config{Transport: answers(200, s)})
		w := p.expect("POST /login X-Api-Key=a", 200, "")
		if got := w.Header().Get("RateLimit"); !strings.Contains(got, `"clients";r=4`) || !strings.Contains(got, `"logins";r=1`) {
			t.Errorf("RateLimit: %s: want both rules", got)
		}
		if got := p.expect("/ X-Api-Key=a", 200, "").Header().Get("RateLimit"); strings.Contains(got, "logins") {
			t.Errorf("RateLimit: %s: want the rule clients alone", got)
		}
		p.expect("POST /login X-Api-Key=a", 200, "")
		w = p.expect("POST /login X-Api-Key=a", 429, "over_rate")
		if got := w.Body.String(); !strings.Contains(got, `"logins"`) {
			t.Errorf("%s: want the name of the rule", got)
		}
		p.counted("clients", 4, 0, 0)
		p.counted("logins", 2, 1, 0)

		var both sync.WaitGroup
		both.Go(func() { p.expect("/reports/1 X-Api-Key=b", 200, "") })
		synctest.Wait()
		p.expect("/reports/1 X-Api-Key=b", 503, "over_limit")
		both.Wait()
		for range 4 { // the rejected request has given its token back
			p.expect("/ X-Api-Key=b", 200, "")
		}
		p.expect("/ X-Api-Key=b", 429, "over_rate")
		c := p.class("reports")
		if c.Requests != 2 || c.Admitted != 1 || c.Rejected["over_limit"] != 1 || c.Denied != 0 {
			t.Errorf("%+v", c)
		}
		if c := p.class("default"); c.Denied != 2 || c.Outcomes["success"] != 7 {
			t.Errorf("%+v", c)
		}
	})
}

// A rule with a limit bounds the requests in flight of each client, also over a reload. Other
// clients are not affected.
func TestRequestsInFlightOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const file = "rules: [{name: in-flight, by: header X-Api-Key, limit: 3, except: /free}]"
		p := withRules(t, file, proxy.Config{Transport: answers(200, 10*s)})
		var all sync.WaitGroup
		var denied atomic.Int64
		for range 8 {
			all.Go(func() {
				if w := p.send("/ X-Api-Key=a"); w.Code == 429 {
					denied.Add(1)
					h := w.Header()
					if h.Get(proxy.ReasonHeader) != "over_limit" || h.Get("Retry-After") != "1" || h.Get("RateLimit-Policy") != `"in-flight";q=3;qu="concurrent-requests"` {
						t.Errorf("%v", h)
					}
				}
			})
		}
		synctest.Wait()
		if denied.Load() != 5 {
			t.Errorf("%d denied: want 5 of 8", denied.Load())
		}
		p.counted("in-flight", 3, 5, 0)
		all.Go(func() { p.expect("/ X-Api-Key=b", 200, "") })
		all.Go(func() { p.expect("/free X-Api-Key=a", 200, "") })
		synctest.Wait()
		x := p.Explain(testrig.Request("GET", "/", "X-Api-Key: a"))
		if r := x.Rules[0]; x.Verdict != proxy.Deny || x.Status != 429 || r.Limit != 3 || r.Remaining != 0 || r.Words != "3 of 3 requests in flight." {
			t.Errorf("%+v", x)
		}

		p.reload("rules: [{name: in-flight, by: header X-Api-Key, limit: 4, except: /free}]")
		all.Go(func() { p.expect("/ X-Api-Key=a", 200, "") })
		synctest.Wait()
		p.expect("/ X-Api-Key=a", 429, "over_limit")
		if r := p.rule("in-flight"); r.Limit != 4 || r.Rate != "" || r.Burst != 0 {
			t.Errorf("%+v", r)
		}
		all.Wait()
		p.reload("rules: [{name: in-flight, by: header X-Api-Key, limit: 1, mode: shadow}]")
		p.counted("in-flight", 5, 6, 0) // b is one of them
		for range 2 {
			all.Go(func() { p.expect("/ X-Api-Key=a", 200, "") })
		}
		all.Wait()
		p.counted("in-flight", 6, 6, 1)
	})
}

// Each class with a limit has a queue apart from the others. Without one, it shares that of
// the class default.
func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
classes:
- {name: reports, routes: [/reports/, "GET /export/{id}"], limit: 1, queue: 1, max_wait: 3s}
- {name: rest, routes: /rest/}
default: {limit: 1, queue: 0}
`, proxy.Config{Transport: answers(200, 2*s)})
		var all sync.WaitGroup
		go1 := func(text string, status int, reason string) {
			all.Go(func() { p.expect(text, status, reason) })
			synctest.Wait()
		}
		go1("/reports/1", 200, "")
		go1("/export/7", 200, "") // waits
		go1("/reports/2", 503, "queue_full")
		go1("/", 200, "")
		go1("/rest/", 503, "over_limit")
		go1("POST /export/7", 503, "over_limit") // of the class default
		st := p.Stats()
		if st.Inflight != 2 || st.Waiting != 1 || st.Limit != 2 || st.Admitted != 2 {
			t.Errorf("%+v: want 2 of 2 in flight, one waits", st.Stats)
		}
		all.Wait()
		if c := p.class("rest"); c.Own || c.Limit != nil || c.Rejected["over_limit"] != 1 {
			t.Errorf("%+v: want the limit of default, and its own counts", c)
		}
		if c := p.class("reports"); !c.Own || c.Limit.LimitNow != 1 || c.Limit.Queue != 1 || time.Duration(c.Limit.MaxWait) != 3*s || c.Admitted != 2 {
			t.Errorf("%+v", c)
		}
	})
}

// The total bounds all classes together. A request that waits for it holds a unit of its
// class; a rejected one holds nothing.
func TestTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
classes:
- {name: a, routes: /a, limit: 2, queue: 0}
- {name: b, routes: /b, limit: 2, queue: 0, priority: sheddable}
total: {limit: 2, queue: 1, max_wait: 1500ms}
`, proxy.Config{Transport: answers(200, s)})
		var all sync.WaitGroup
		start := func(text string, status int, reason string) {
			all.Go(func() { p.expect(text, status, reason) })
			synctest.Wait()
		}
		start("/a", 200, "")
		start("/b", 200, "")
		start("/b", 503, "queue_full") // waits, until a request of a higher priority comes
		start("/a", 200, "")
		if st := p.Stats(); st.Inflight != 2 || st.Waiting != 1 || st.Limit != 2 {
			t.Errorf("%+v: want 2 in flight, one waits", st.Stats)
		}
		start("/a", 503, "over_limit") // of the class: two of its units are taken
		start("/b", 503, "queue_full")
		all.Wait()
		want(t, p.Proxy, 0, 0)
		r := p.Report()
		if r.Total == nil || r.Total.Inflight != 0 || r.Total.LimitNow != 2 || r.Total.Queue != 1 {
			t.Errorf("%+v", r.Total)
		}
	})
}

// What a class says about time-outs and deadlines holds for its routes.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
classes:
- {name: quick, routes: /quick, timeout: 1s}
- {name: short, routes: /short, deadline: 2s, limit: 1, queue: 5, max_wait: 0s}
deadline: {header: X-Request-Deadline, max: 3s}
`, proxy.Config{Transport: answers(200, 5*s), AbandonedHold: -1})
		took := func(text string, status int, reason string, want time.Duration) {
			t.Helper()
			began := time.Now()
			if p.expect(text, status, reason); time.Since(began) != want {
				t.Errorf("%s: after %v: want %v", text, time.Since(began), want)
			}
			synctest.Wait() // until its permit is released
		}
		took("/", 200, "", 5*s)
		took("/quick", 504, "origin_timeout", s)
		took("/short", 504, "deadline", 2*s)
		took("/ X-Request-Deadline=700", 504, "deadline", 700*time.Millisecond)
		took("/ X-Request-Deadline=1h", 504, "deadline", 3*s)
		took("/short X-Request-Deadline=1s", 504, "deadline", s)
		took("/short X-Request-Deadline=2500ms", 504, "deadline", 2*s)
		took("/ X-Request-Deadline=soon", 200, "", 5*s)

		// A request that waits for its turn shows the limiter how long others take.
		var others sync.WaitGroup
		others.Go(func() { p.expect("/short X-Request-Deadline=1500ms", 504, "deadline") })
		synctest.Wait()
		took("/short", 504, "deadline", 2*s)
		others.Go(func() { p.expect("/short", 504, "deadline") })
		synctest.Wait()
		took("/short X-Request-Deadline=500ms", 503, "too_late", 0)
		others.Wait()
	})
}

// A body beyond its bound gets 413: at once if its length is known, else when it is reached.
func TestBodyBound(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := withRules(t, "default: {max_body: 1KiB}", proxy.Config{Transport: answers(200, s), Shadow: shadow})
			large := 413
			if shadow {
				large = 200
			}
			for _, tt := range []struct {
				length, status int
				known          bool
			}{
				{1024, 200, true}, {1025, large, true}, {1024, 200, false}, {1025, large, false}, {100 << 10, large, false}, {0, 200, true},
			} {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, body(t, tt.length, tt.known))
				if w.Code != tt.status {
					t.Errorf("shadow %v: %+v: %d", shadow, tt, w.Code)
				}
			}
			c := p.class("default")
			got := c.Rejected["too_large"]
			if shadow {
				got = c.WouldReject["too_large"]
			}
			if want := uint64(3); got != want {
				t.Errorf("shadow %v: %+v: want %d too large", shadow, c, want)
			}
			if st := p.Stats(); st.Outcomes[2] != 0 {
				t.Errorf("%+v: a large body is no sign of overload", st.Outcomes)
			}
			want(t, p.Proxy, 0, 0)
		})
	}
}

// Tenants share a limit, whatever the number of their requests, by their weights.
func TestTenantsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "tenants: {by: header X-Api-Key, weights: {acme: 2}}", proxy.Config{
			Limit: proxy.FixedLimit(1), Queue: 300, MaxWait: time.Hour, Transport: answers(200, s),
		})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var mu sync.Mutex
		served := map[string]int{}
		for tenant, clients := range map[string]int{"greedy": 40, "small": 3, "acme": 3} {
			for range clients {
				all.Go(func() {
					for ctx.Err() == nil {
						if p.send("/ X-Api-Key="+tenant).Code == 200 {
							mu.Lock()
							served[tenant]++
							mu.Unlock()
						} else {
							time.Sleep(100 * time.Millisecond)
						}
					}
				})
			}
		}
		time.Sleep(100 * s)
		stop()
		all.Wait()
		if g, m, a := served["greedy"], served["small"], served["acme"]; g < 20 || g > 30 || m < 20 || m > 30 || a < 45 || a > 55 {
			t.Errorf("%v served: want a quarter of 100 for greedy and for small, and half for acme", served)
		}
	})
}

// A header raises the priority of a request only for trusted clients.
func TestPriorityOfHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "priority: {header: X-P, trust: 10.0.0.0/8}", proxy.Config{
			Limit: proxy.FixedLimit(1), Queue: 1, MaxWait: time.Hour, Transport: answers(200, s),
		})
		var all sync.WaitGroup
		start := func(text string, status int) {
			all.Go(func() {
				if w := p.send(text); w.Code != status {
					t.Errorf("%s: %d: want %d", text, w.Code, status)
				}
			})
			synctest.Wait()
		}
		start("/first", 200)
		start("/waits", 503)
		start("/untrusted X-P=critical_plus address=11.0.0.1", 503)
		start("/trusted X-P=critical_plus address=10.0.0.1", 200)
		all.Wait()
	})
}
