package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

const explainRules = `
rules:
  - {name: clients, by: [header X-Api-Key, address], rate: 2/s, except: ["/health", "/slow/"]}
  - {name: patient, by: address, rate: 1/s, max_wait: 2s, routes: ["/patient"]}
  - {name: closed, rate: 0/s, max_wait: 2s, routes: ["/closed"]}
  - {name: twice, rate: 0/s, burst: 2, routes: ["/twice"]}
  - {name: trial, rate: 1/m, routes: ["/trial"], mode: shadow}
classes:
  - {name: slow, routes: ["/slow/"], limit: 1, queue: 1, max_wait: 5s}
  - {name: full, routes: ["GET /full/{id}"], limit: 0, queue: 0, priority: sheddable}
  - {name: try, routes: ["/try"], limit: 0, queue: 0, max_body: 10, mode: shadow}
  - {name: cached, routes: ["/cached"], cache: {ttl: 1m}}
default: {max_body: 10}
`

// An explanation says what happens to the request right afterwards, and changes nothing.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{
			Limit: proxy.FixedLimit(2), Transport: answers(200, time.Minute), RulesPath: "rules.yaml",
			LoadRules: func() (*proxyrule.Rules, error) { return proxyrule.Parse("rules.yaml", []byte(explainRules)) },
		})
		request := func(line string, header ...string) *http.Request {
			method, target, _ := strings.Cut(line, " ")
			r := httptest.NewRequest(method, target, nil)
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			if r.Header.Get("Content-Length") != "" {
				r.ContentLength = 11
			}
			return r
		}
		send := func(r *http.Request) { go p.ServeHTTP(httptest.NewRecorder(), r); synctest.Wait() }
		want := func(r *http.Request, verdict proxy.Verdict, status int, words string) {
			t.Helper()
			for range 2 { // the first one changes nothing
				if x := p.Explain(r); x.Verdict != verdict || x.Status != status || x.Words != words {
					t.Errorf("%s %s: %s, %d, %s: want %s, %d, %s", r.Method, r.URL, x.Verdict, x.Status, x.Words, verdict, status, words)
				}
			}
		}
		want(request("GET /"), proxy.Forward, 0, "Forwarded to the origin.")
		want(request("CONNECT /"), proxy.Reject, 405, "Rejected with 405: a reverse proxy serves no CONNECT.")
		want(request("POST /", "Content-Length", "11"), proxy.Reject, 413, "Rejected with 413: the body has 11 bytes, and the class allows 10.")
		want(request("POST /try", "Content-Length", "11"), proxy.Forward, 0, "Forwarded, but only because of shadow mode. "+
			"Otherwise: Rejected with 413: the body has 11 bytes, and the class allows 10. Rejected with 503: the limit try is used up, with 0 of 0 in flight and 0 of 0 waiting.")
		want(request("GET /full/7"), proxy.Reject, 503, "Rejected with 503: the limit full is used up, with 0 of 0 in flight and 0 of 0 waiting.")
		want(request("GET /cached"), proxy.Forward, 0, "Forwarded to the origin. If the cache has its response, the cache answers instead, without the limit.")

		want(request("GET /closed"), proxy.Deny, 429, `Denied with 429 by the rule "closed": a token is never available.`)
		if x := p.Explain(request("GET /closed")); x.Rules[2].RetryAfterMS != -1 || x.Rules[2].Words != "0/s: 0 of 0 tokens left, none is refilled." {
			t.Errorf("%+v", x.Rules[2])
		}
		if x := p.Explain(request("GET /twice")); x.Rules[3].RetryAfterMS != 0 || x.Rules[3].Words != "0/s: 2 of 2 tokens left." {
			t.Errorf("%+v", x.Rules[3])
		}
		closed := httptest.NewRecorder()
		if p.ServeHTTP(closed, request("GET /closed")); closed.Code != 429 {
			t.Errorf("GET /closed: %d", closed.Code)
		}

		send(request("GET /slow/1"))
		want(request("GET /slow/2"), proxy.Delay, 0, "Waits in the queue of the limit slow, 0 in front of it, for at most 5s; then it is forwarded to the origin.")
		send(request("GET /slow/2"))
		want(request("GET /slow/3"), proxy.Reject, 503, "Rejected with 503: the limit slow is used up, with 1 of 1 in flight and 1 of 1 waiting.")

		for range 2 {
			send(request("GET /", "X-Api-Key", "acme"))
		}
		want(request("GET /health"), proxy.Reject, 503, "Rejected with 503: the limit default is used up, with 2 of 2 in flight and 0 of 0 waiting.")
		want(request("GET /", "X-Api-Key", "acme"), proxy.Deny, 429, `Denied with 429 by the rule "clients": a token is available in 500ms.`)
		if x := p.Explain(request("GET /full/7", "X-Api-Key", "acme")); x.Class != "full" || x.Route != "GET /full/{id}" || x.Priority != "sheddable" ||
			x.LimitOf != "full" || x.Rules[0].Key != `header X-Api-Key "acme"` || x.Rules[0].Words != "2/s: 0 of 2 tokens left, the next one in 500ms." ||
			!strings.HasPrefix(x.Rules[1].Words, "Does not apply: ") {
			t.Errorf("%+v", x)
		}
		time.Sleep(5 * time.Minute)
		want(request("GET /", "X-Api-Key", "acme"), proxy.Forward, 0, "Forwarded to the origin.")
		send(request("GET /patient", "X-Api-Key", "a"))
		time.Sleep(100 * time.Millisecond)
		want(request("GET /patient", "X-Api-Key", "b"), proxy.Delay, 0, `Waits 900ms for a token of the rule "patient"; then it is forwarded to the origin.`)
		if err := p.Set(proxy.Change{Limit: new(proxy.FixedLimit(9))}); err != nil {
			t.Fatal(err)
		}
		send(request("GET /trial", "X-Api-Key", "c"))
		want(request("GET /trial", "X-Api-Key", "d"), proxy.Forward, 0, "Forwarded, but only because of shadow mode. "+
			`Otherwise: Denied with 429 by the rule "trial": a token is available in 1m0s.`)
		time.Sleep(5 * time.Minute) // until all has ended
	})
}
