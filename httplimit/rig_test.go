package httplimit

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/keyed"
)

// A site is a handler behind a Middleware, which counts its runs.
type site struct {
	*Middleware
	t       testing.TB
	handler http.Handler
	runs    atomic.Int64
}

func newSite(t testing.TB, cfg Config, h http.HandlerFunc) *site {
	t.Helper()
	s := &site{Middleware: middleware(t, cfg), t: t}
	s.handler = s.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		if h != nil {
			h(w, r)
		}
	}))
	return s
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// get sends a GET, and fails the test if the status is another.
func (s *site) get(status int, url string, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	w := s.do(testrig.Request("GET", url, headers...))
	if w.Code != status {
		s.t.Errorf("GET %s %q: %d: want %d", url, headers, w.Code, status)
	}
	return w
}

// ran fails the test if the handler has not run that often.
func (s *site) ran(want int64) {
	s.t.Helper()
	if n := s.runs.Load(); n != want {
		s.t.Errorf("the handler has run %d times: want %d", n, want)
	}
}

// counts returns those of a class; none if it is not known.
func (s *site) counts(class string) tally {
	s.t.Helper()
	for _, c := range s.Stats().Classes {
		if c.Class == class {
			return tally{c.Admitted, total(c.Refused), total(c.Shadowed), c.Outcomes}
		}
	}
	return tally{}
}

// tally are counts of a class, those of all reasons together.
type tally struct {
	admitted, refused, shadowed uint64
	outcomes                    map[weir.Outcome]uint64
}

func total[K comparable](counts map[K]uint64) (sum uint64) {
	for n := range maps.Values(counts) {
		sum += n
	}
	return sum
}

// An allowance is a Rule for each client that X-Client names, and what is behind it.
type allowance struct {
	Rule
	lim *keyed.Limiter[string]
}

// allow returns an allowance of a burst that comes back in an hour.
func allow(t testing.TB, name string, burst int) allowance {
	return allowAt(t, name, gcra.Per(max(burst, 1), time.Hour, burst))
}

func allowAt(t testing.TB, name string, q gcra.Quota) allowance {
	t.Helper()
	lim, err := keyed.New[string](q, keyed.Config{})
	testrig.Must(t, err)
	return allowance{PerKey(name, lim, Header("X-Client")), lim}
}

// left fails the test unless a client has n tokens.
func (q allowance) left(t testing.TB, client string, want int, when string) {
	t.Helper()
	if d := q.lim.Take(client, 0); d.Remaining != want {
		t.Errorf("%s: %s has %d tokens: want %d", when, client, d.Remaining, want)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

var refusedByLimiter = weir.Reject(weir.QueueFull, time.Second)

// perKeyOnce is a Rule that lets each key in once.
func perKeyOnce[K comparable](t testing.TB, key func(*http.Request) (K, bool)) Rule {
	t.Helper()
	lim, err := keyed.New[K](gcra.Per(1, 1000*time.Hour, 1), keyed.Config{})
	testrig.Must(t, err)
	return PerKey("once", lim, key)
}
