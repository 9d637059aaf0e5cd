// Package routercheck tests a router over HTTP: handlers behind a Middleware are limited,
// and work as without it.
package routercheck

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

// A Router is a router to check.
type Router struct {
	// New returns a router with two routes behind m: GET /hello/NAME, which says
	// "hello, NAME", and GET /hook, which calls the handler. If it needs a Class,
	// it says so in cfg before it makes m by httplimit.New.
	New func(t *testing.T, cfg httplimit.Config, hook http.HandlerFunc) (http.Handler, *httplimit.Middleware)
	// Hello and Hook are the classes of the routes.
	Hello, Hook string
	// Recovers says that a panic becomes a 500; else it ends the connection.
	Recovers bool
}

// Run checks a router.
func Run(t *testing.T, r Router) {
	t.Run("a client has a quota", func(t *testing.T) { quota(t, r) })
	t.Run("each route has a limit", func(t *testing.T) { limits(t, r) })
	t.Run("a panic releases", func(t *testing.T) { panics(t, r) })
	t.Run("overload is seen", func(t *testing.T) { overload(t, r) })
	t.Run("a stream flows", func(t *testing.T) { stream(t, r) })
	t.Run("a connection is taken over", func(t *testing.T) { hijack(t, r) })
	t.Run("a body is paced", func(t *testing.T) { pace(t, r) })
	t.Run("the cost is told later", func(t *testing.T) { use(t, r) })
}

// start serves the router on loopback.
func start(t *testing.T, r Router, cfg httplimit.Config, hook http.HandlerFunc) (url string, m *httplimit.Middleware) {
	t.Helper()
	h, m := r.New(t, cfg, hook)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, m
}

// perClient allows each address three requests at once, and one a minute.
func perClient(t *testing.T) httplimit.Config {
	t.Helper()
	lim, err := keyed.New[netip.Addr](rate.Per(1, time.Minute, 3), keyed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return httplimit.Config{Rules: []httplimit.Rule{httplimit.PerKey("per-client", lim, httplimit.Address())}}
}

// perClass lets one request of each class in at a time, and none wait.
func perClass() httplimit.Config {
	return httplimit.Config{PerClass: func(string) weir.Limiter { return limiter(1) }}
}

// counts holds the counts of a class.
type counts struct {
	admitted, refused uint64
	inflight          int
	outcomes          map[weir.Outcome]uint64
}

// class returns the counts of a class by its name.
func class(t *testing.T, m *httplimit.Middleware, name string) counts {
	t.Helper()
	for _, c := range m.Stats().Classes {
		if c.Class != name {
			continue
		}
		n := counts{admitted: c.Admitted, outcomes: c.Outcomes}
		for _, refused := range c.Refused {
			n.refused += refused
		}
		if c.Limiter != nil {
			n.inflight = c.Limiter.Inflight
		}
		return n
	}
	t.Fatalf("no class %q: %+v", name, m.Stats())
	return counts{}
}

// free waits until no request of a class is in flight: a client may have its
// answer a little before.
func free(t *testing.T, m *httplimit.Middleware, name string) {
	t.Helper()
	until(t, name+" is free", func() bool { return class(t, m, name).inflight == 0 })
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(late) {
			t.Fatalf("timed out while waiting until %s", what)
		}
	}
}

// client gives up rather than let a test hang.
var client = http.Client{Timeout: 10 * time.Second}

// An answer is a response, read.
type answer struct {
	*http.Response
	body string
}

func get(t *testing.T, url string) answer {
	t.Helper()
	a, err := ask(url)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ask(url string) (answer, error) {
	resp, err := client.Get(url)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp, string(body)}, err
}

// Middleware is httplimit.New for tests.
func Middleware(t *testing.T, cfg httplimit.Config) *httplimit.Middleware {
	t.Helper()
	m, err := httplimit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Class sends a request to h, and checks that m counts it in a class alone; in none if
// the name is "none".
func Class(t *testing.T, h http.Handler, m *httplimit.Middleware, method, url, want string) {
	t.Helper()
	before := arrivals(m)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, url, nil))
	got := "none"
	for name, n := range arrivals(m) {
		if n != before[name] {
			got = name
		}
	}
	if got != want {
		t.Errorf("%s %s has the class %q, want %q", method, url, got, want)
	}
	if n := m.Stats().Unrouted; n > 0 {
		t.Errorf("%s %s: %d requests are unrouted", method, url, n)
	}
}

// arrivals counts the requests that a Middleware has admitted, by class.
func arrivals(m *httplimit.Middleware) map[string]uint64 {
	counts := map[string]uint64{}
	for _, c := range m.Stats().Classes {
		counts[c.Class] = c.Admitted
	}
	return counts
}

// Closed is a Limiter that lets nothing in.
func Closed() weir.Limiter { return limiter(0) }

func limiter(n int) weir.Limiter {
	l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(n), Queue: -1})
	if err != nil {
		panic(err) // it is valid
	}
	return l
}

// Outcome checks that all requests of a class have ended with an outcome.
func Outcome(t *testing.T, m *httplimit.Middleware, name string, want weir.Outcome) {
	t.Helper()
	if c := class(t, m, name); len(c.outcomes) != 1 || c.outcomes[want] != c.admitted {
		t.Errorf("%s: %+v: want %v only", name, c, want)
	}
}
