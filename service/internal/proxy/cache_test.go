package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/clients"
)

// The cache of a class answers in front of its limit, and asks the origin once for requests
// that come together. Rates count all requests.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, status := 0, 200
		p := withRules(t, `
rules: [{name: a, by: header X-Api-Key, rate: 100/h}]
classes: [{name: x, routes: /x, limit: 1, queue: 0, cache: {ttl: 10s, stale_if_rejected: 1h, stale_if_error: 1h}}]
`, proxy.Config{Transport: origin(func(r *http.Request) (*http.Response, error) {
			asked++
			n := asked
			resp, err := answers(status, s)(r)
			if err == nil {
				resp.Header.Set("N", strconv.Itoa(n))
			}
			return resp, err
		})})
		get := func(text string, status int, n, how string) {
			t.Helper()
			w := p.send(text)
			if got := w.Header().Get("Cache-Status"); w.Code != status || w.Header().Get("N") != n || !strings.Contains(got, how) {
				t.Errorf("%s: %d by request %s, %s: want %d by request %s, %s", text, w.Code, w.Header().Get("N"), got, status, n, how)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { get("/x", 200, "1", "stored") })
		synctest.Wait()
		all.Go(func() { get("/x", 200, "1", "collapsed") })
		synctest.Wait()
		get("/x?other", 503, "", "") // the limit is reached
		all.Wait()
		get("/x", 200, "1", "hit")
		get("/x X-Api-Key=k", 200, "2", "stored") // clients with another key do not share responses
		get("POST /x", 200, "3", "")              // and removes what is kept
		get("/x", 200, "4", "stored")
		time.Sleep(11 * s)
		status = 500
		get("/x", 200, "4", "hit") // an old one is better than an error
		get("/y", 500, "6", "")

		p.reload(`
rules: [{name: a, by: header X-Api-Key, rate: 100/h}]
classes: [{name: x, routes: /x, limit: 1, queue: 0, timeout: 5s, cache: {ttl: 10s, stale_if_rejected: 1h, stale_if_error: 1h}}]
`)
		status = 200
		get("/x", 200, "7", "stored")
		get("/x", 200, "7", "hit")
		c := p.class("x").Cache
		if c.Hits != 2 || c.Coalesced != 1 || c.Passed != 1 || c.Entries == 0 {
			t.Errorf("%+v: want the counts of before the reload too", c)
		}
		if r := p.rule("a"); r.Allowed != 11 {
			t.Errorf("%+v: want all requests but the rejected one counted as allowed", r)
		}
		p.reload("classes: [{name: x, routes: /x, limit: 1, queue: 0, cache: {ttl: 1s}}]")
		get("/x", 200, "8", "stored")
		want(t, p.Proxy, 0, 0)
	})
}

// Requests that were rejected in the place of others get their tokens back as well.
func TestCacheGivesTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, `
rules: [{name: a, rate: 2/h}]
classes: [{name: x, routes: /x, limit: 0, cache: {ttl: 10s}}]
`, proxy.Config{Transport: answers(200, s)})
		for range 5 {
			p.expect("/x", 503, "over_limit")
		}
		p.expect("/", 200, "")
		p.expect("/", 200, "")
		p.expect("/", 429, "over_rate")
	})
}

// A client that leaves while the cache asks for it and for others does not spoil the answer.
func TestCacheAndClientsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := withRules(t, "classes: [{name: x, routes: /x, limit: 1, deadline: 3s, cache: {ttl: 10s}}]", proxy.Config{Transport: answers(200, s)})
		var all sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/x", nil)
			p.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		all.Go(func() { p.expect("/x", 200, "") })
		synctest.Wait()
		leave()
		all.Wait()
		want(t, p.Proxy, 0, 0)
	})
}

// What a trusted proxy reports, the origin sees. So a response for one host or protocol does not
// answer requests for another. The address of the client makes no difference.
func TestCacheBehindTrustedProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := withRules(t, `classes: [{name: x, routes: /x, cache: {ttl: 1h}}]`, proxy.Config{
			Trust: clients.Trust{Proxies: caller.Trust([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, false)},
			Transport: origin(func(r *http.Request) (*http.Response, error) {
				asked++
				return answers(200, 0)(r)
			}),
		})
		for i, tt := range []struct {
			request string
			origin  bool // it is asked
		}{
			{"/x", true}, {"/x", false},
			{"/x X-Forwarded-Host=evil.example", true}, {"/x X-Forwarded-Host=evil.example", false},
			{"/x X-Forwarded-Proto=https", true}, {"/x X-Forwarded-Proto=other", true},
			{"/x Forwarded=for=192.0.2.9", true}, {"/x Forwarded=for=192.0.2.8;by=192.0.2.7", false},
			{"/x Forwarded=for=192.0.2.9;Host=evil.example", true}, {"/x Forwarded=HOST=evil.example;for=192.0.2.8", false},
			{"/x Forwarded=for=192.0.2.9;proto=https", true}, {"/x Forwarded=for=192.0.2.9,for=192.0.2.8;proto=http", true},
			{"/x", false},
		} {
			was := asked
			if w := p.send(tt.request); w.Code != 200 || (asked > was) != tt.origin {
				t.Errorf("%d. %s: %d, the origin was asked %d times: want that it is asked: %t", i, tt.request, w.Code, asked-was, tt.origin)
			}
		}
		for _, headers := range []http.Header{ // two lists of values with the same texts in the same order
			{"X-Forwarded-Host": {"a", "proto", "b"}}, {"X-Forwarded-Host": {"a"}, "X-Forwarded-Proto": {"b", "proto"}},
		} {
			was, r := asked, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/x", nil)
			r.RemoteAddr, r.Header = "127.0.0.1:1234", headers
			if p.ServeHTTP(httptest.NewRecorder(), r); asked == was {
				t.Errorf("%v has the response of another", headers)
			}
		}
		for _, host := range []string{`"evil,1"`, `"evil,2"`} {
			was, r := asked, httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/x", nil)
			r.RemoteAddr = "127.0.0.1:1234"
			r.Header.Set("Forwarded", "for=192.0.2.9;host="+host)
			if p.ServeHTTP(httptest.NewRecorder(), r); asked == was {
				t.Errorf("the host %s has the response of another", host)
			}
		}
	})
}
