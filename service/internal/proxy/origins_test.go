package proxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy"
)

// A group is several origins in memory, each with its own behaviour.
type group struct {
	mu   sync.Mutex
	does map[string]origin // by host
	got  map[string]int
	urls []string
}

func newGroup(does map[string]origin) *group { return &group{does: does, got: map[string]int{}} }

func (g *group) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	does := g.does[r.URL.Host]
	g.got[r.URL.Host]++
	g.urls = append(g.urls, r.URL.String())
	g.mu.Unlock()
	return does(r)
}

// now replaces the behaviour of an origin.
func (g *group) now(host string, does origin) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.does[host] = does
}

// count returns the requests that an origin got since the last call.
func (g *group) count(host string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.got[host]
	g.got[host] = 0
	return n
}

func (g *group) proxy(t *testing.T, hosts ...string) *proxy.Proxy {
	for i := range hosts {
		hosts[i] = "http://" + hosts[i]
	}
	return newProxy(t, proxy.Config{Origins: hosts, Transport: g, Limit: proxy.FixedLimit(500), Timeout: 5 * s, AbandonedHold: 10 * s})
}

// call sends a request with a method and returns the status.
func call(t *testing.T, p *proxy.Proxy, method string, body io.Reader) int {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://proxy.test/path?q=1", body))
	return w.Code
}

func refuses(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func state(t *testing.T, p *proxy.Proxy, i int, want balance.State) {
	t.Helper()
	if got := p.Stats().Origins[i].State; got != want {
		t.Errorf("origin %d is %v, want %v", i, got, want)
	}
}

// While one of two origins refuses connections, each request is served by the other. The dead origin is ejected, and returns when it works.
func TestDeadOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(map[string]origin{"a": answers(200, s/100), "b": refuses})
		p := g.proxy(t, "a", "b/base")
		for i := range 100 {
			method, body := "GET", io.Reader(nil)
			if i%2 == 0 {
				method, body = "POST", strings.NewReader("x")
			}
			if code := call(t, p, method, body); code != 200 {
				t.Errorf("%s: %d", method, code)
			}
		}
		state(t, p, 1, balance.Ejected)
		if n := p.Stats().Origins[1].Retried; n != 3 {
			t.Errorf("%d went to another origin: want 3, then the origin is ejected", n)
		}
		for _, u := range g.urls {
			if u != "http://a/path?q=1" && u != "http://b/base/path?q=1" {
				t.Errorf("an origin was asked for %s", u)
			}
		}
		g.now("b", answers(200, s/100))
		time.Sleep(2 * s)
		g.count("b")
		for range 2000 {
			call(t, p, "GET", nil)
			time.Sleep(s / 100)
		}
		if n := g.count("b"); n < 300 {
			t.Errorf("%d requests in 40 s at the origin that has returned", n)
		}
		state(t, p, 1, balance.In)
		want(t, p, 0, 0)
		for i, o := range p.Stats().Origins {
			if o.Inflight != 0 {
				t.Errorf("origin %d has %d in flight", i, o.Inflight)
			}
		}
	})
}

// An origin that does not answer is ejected at the time-out, not when the hold for its
// abandoned requests is over.
func TestStuckOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(map[string]origin{"a": answers(200, s/100), "b": answers(200, time.Hour)})
		p := g.proxy(t, "a", "b")
		for range 40 {
			for range 20 {
				go call(t, p, "GET", nil)
			}
			time.Sleep(s / 4)
		}
		state(t, p, 1, balance.Ejected)
		if st := p.Stats().Origins; st[1].Inflight == 0 || st[1].Inflight > 100 {
			t.Errorf("%d in flight at the stuck origin", st[1].Inflight)
		}
		time.Sleep(time.Hour)
		want(t, p, 0, 0)
		for i, o := range p.Stats().Origins {
			if o.Inflight != 0 {
				t.Errorf("origin %d has %d in flight", i, o.Inflight)
			}
		}
	})
}

// Clients that leave, and requests that they break off, eject no origin.
func TestClientsEjectNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(map[string]origin{"a": answers(200, s), "b": answers(200, s)})
		p := g.proxy(t, "a", "b")
		for range 100 {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://proxy.test/", io.MultiReader(strings.NewReader("x"), broken{}))
			r.ContentLength = -1
			p.ServeHTTP(httptest.NewRecorder(), r)
			time.Sleep(s / 10)
		}
		state(t, p, 0, balance.In)
		state(t, p, 1, balance.In)
	})
}

// A broken body is one that ends with an error.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// An origin that answers 503 with Retry-After to all requests gets one each second; the
// others get 503 and the rest of the time. An origin that answers 429 is asked as before.
func TestRetryAfterOfTheOrigin(t *testing.T) {
	says := func(status int) origin {
		return func(*http.Request) (*http.Response, error) {
			resp := answer(status)
			resp.Header.Set("Retry-After", "10")
			return resp, nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(map[string]origin{"a": says(429)})
		p := g.proxy(t, "a")
		ask := func(n int) (last *httptest.ResponseRecorder) {
			for range n {
				last = httptest.NewRecorder()
				p.ServeHTTP(last, httptest.NewRequestWithContext(t.Context(), "GET", "http://proxy.test/", nil))
				time.Sleep(s / 10)
			}
			return last
		}
		if last := ask(300); g.count("a") != 300 || last.Code != 429 || last.Header().Get("Retry-After") != "10" {
			t.Errorf("429: %d %v", last.Code, last.Header())
		}
		g.now("a", says(503))
		last := ask(110) // a second until the hold, and ten of it
		if n := g.count("a"); n < 18 || n > 23 {
			t.Errorf("%d requests reached the origin: want 10, and one each second", n)
		}
		state(t, p, 0, balance.Held)
		if reason := last.Header().Get(proxy.ReasonHeader); last.Code != 503 || reason != "origin_held" || last.Header().Get("Retry-After") == "" {
			t.Errorf("%d %q %v", last.Code, reason, last.Header())
		}
		g.now("a", answers(200, s/100))
		ask(12)
		if last = ask(1); last.Code != 200 {
			t.Errorf("%d after the origin works again", last.Code)
		}
	})
}

// A request goes to three origins at most, whatever its method, if there is no connection. If one breaks off, only a request that
// may be repeated does.
func TestRetry(t *testing.T) {
	for name, does := range map[string]origin{"refuses": refuses, "breaks": func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }} {
		for method, want := range map[string]int{"GET": 3, "HEAD": 3, "PUT": 3, "DELETE": 3, "OPTIONS": 3, "POST": 1, "PATCH": 1, "BREW": 1} {
			if name == "refuses" {
				want = 3
			}
			synctest.Test(t, func(t *testing.T) {
				g := newGroup(map[string]origin{"a": does, "b": does, "c": does, "d": does})
				p := g.proxy(t, "a", "b", "c", "d")
				if code := call(t, p, method, nil); code != 502 {
					t.Errorf("%s %s: %d", name, method, code)
				}
				if n := g.count("a") + g.count("b") + g.count("c") + g.count("d"); n != want {
					t.Errorf("%s: %s was sent %d times: want %d", name, method, n, want)
				}
			})
		}
	}
}
