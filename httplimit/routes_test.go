package httplimit

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"
)

func TestClassesBehindOtherHandlers(t *testing.T) {
	type key struct{}
	passing := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) })
	}
	copying := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(wrapper{w}, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
		})
	}
	mux := func(patterns ...string) *http.ServeMux {
		m := http.NewServeMux()
		for _, p := range patterns {
			m.HandleFunc(p, nothing)
		}
		return m
	}
	two := mux("GET /a", "/b/{id}")
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/b/"):
			Route(r.Context(), "/b/{id}")
		case r.URL.Path == "/a":
			Route(r.Context(), "GET /a")
		}
	})
	many := mux("/", "/b/{id}")

	for name, tt := range map[string]struct {
		handler  http.Handler
		requests string // paths
		classes  map[string]uint64
		unrouted uint64
	}{
		"the request is passed on": {passing(two), "/a /a /b/1 /b/2 /b/3 /c /c", map[string]uint64{"": 2, "GET /a": 2, "/b/{id}": 3}, 0},
		"a copy is passed on":      {copying(two), "/a /a /b/1 /b/2 /c", map[string]uint64{"": 5}, 4},
		"a copy, and Routes":       {copying(Routes(two)), "/a /a /b/1 /b/2 /c", map[string]uint64{"": 1, "GET /a": 2, "/b/{id}": 2}, 0},
		"a time-out, and Routes":   {http.TimeoutHandler(Routes(two), time.Minute, ""), "/a /a /b/1 /b/2 /c", map[string]uint64{"": 1, "GET /a": 2, "/b/{id}": 2}, 0},
		"Routes alone":             {Routes(two), "/a /a", map[string]uint64{"GET /a": 2}, 0},
		"another router":           {other, "/a /a /b/1 /b/2", map[string]uint64{"GET /a": 2, "/b/{id}": 2}, 0},
		"a more special route":     {passing(many), "/x /b/1 /b/2 /x", map[string]uint64{"/": 3, "/b/{id}": 1}, 0},
		"contradictions": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Route(r.Context(), r.URL.Query().Get("as")) }),
			"/a?as=/a/{b} /a?as=/{a}/b /a?as=/{a /a?as=/a /a?as=/a", map[string]uint64{"": 3, "/a": 2}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := middleware(t, Config{PerClass: Auto, Log: slog.New(slog.NewTextHandler(&log, nil))})
			s := &site{Middleware: m, t: t, handler: m.Handler(tt.handler)}
			for url := range strings.FieldsSeq(tt.requests) {
				s.do(testrig.Request("GET", url))
			}
			st, got := s.Stats(), map[string]uint64{}
			for _, c := range st.Classes {
				if c.Admitted > 0 {
					got[c.Class] = c.Admitted
				}
			}
			if !maps.Equal(got, tt.classes) || st.Unrouted != tt.unrouted {
				t.Errorf("classes %v, %d unrouted: want %v, %d", got, st.Unrouted, tt.classes, tt.unrouted)
			}
			if n := strings.Count(log.String(), "httplimit.Routes"); n != int(min(tt.unrouted, 1)) {
				t.Errorf("%d warnings: %s", n, log.String())
			}
		})
	}
}

// No count goes down when a route becomes known.
func TestCountsOfRoutesOnlyGrow(t *testing.T) {
	var s *site
	last := map[string]uint64{}
	look := func() {
		for _, c := range s.Stats().Classes {
			if c.Admitted < last[c.Class] {
				t.Errorf("%q: %d admitted, and %d before", c.Class, c.Admitted, last[c.Class])
			}
			last[c.Class] = c.Admitted
		}
	}
	mux := http.NewServeMux()
	for _, p := range []string{"/a", "/b", "/"} {
		mux.HandleFunc(p, func(http.ResponseWriter, *http.Request) { look() })
	}
	m := middleware(t, Config{PerClass: Auto})
	s = &site{Middleware: m, t: t, handler: m.Handler(Routes(mux))}
	for _, path := range []string{"/a", "/a", "/b", "/c", "/b", "/a"} {
		s.get(200, path)
		look()
	}
	if last["/a"] != 3 || last["/b"] != 2 || last["/"] != 1 || last[""] != 0 {
		t.Errorf("%v", last)
	}
}

// Outer handlers read what inner ones have found out about the request.
func TestOuterHandlersSeeTheRoute(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /item/{id}/{rest...}", func(_ http.ResponseWriter, r *http.Request) { _ = r.ParseForm() })
	for name, inner := range map[string]http.Handler{"a mux": mux, "Routes": Routes(mux)} {
		m := middleware(t, Config{PerClass: Auto})
		h := m.Handler(inner)
		for range 2 * asks {
			r := testrig.Request("GET", "/item/7/a/b?q=1")
			h.ServeHTTP(httptest.NewRecorder(), r)
			if r.Pattern != "GET /item/{id}/{rest...}" || r.PathValue("id") != "7" || r.PathValue("rest") != "a/b" || r.Form.Get("q") != "1" {
				t.Fatalf("%s: %q, %q, %q, %v", name, r.Pattern, r.PathValue("id"), r.PathValue("rest"), r.Form)
			}
		}
	}
}

// A handler in between that answers by itself is no route that is not known.
func TestAnswersInBetween(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a", nothing)
	m := middleware(t, Config{PerClass: Auto})
	inner := Routes(mux)
	s := &site{Middleware: m, t: t, handler: m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "OPTIONS" {
			w.WriteHeader(401)
			return
		}
		inner.ServeHTTP(w, r)
	}))}
	for range 100 {
		s.do(testrig.Request("OPTIONS", "/a"))
	}
	s.get(200, "/a")
	s.get(200, "/a")
	if n := s.Stats().Unrouted; n != 0 || s.counts("GET /a").admitted != 2 {
		t.Errorf("%d unrouted, %+v", n, s.counts("GET /a"))
	}
}

// Requests are classified while others make routes known.
func TestRoutesOfManyRequests(t *testing.T) {
	mux := http.NewServeMux()
	for _, p := range strings.Split("abcdefgh", "") {
		mux.HandleFunc("/"+p+"/{id}", nothing)
	}
	m := middleware(t, Config{PerClass: Auto})
	h := m.Handler(Routes(mux))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 400 {
				(&site{Middleware: m, t: t, handler: h}).get(200, "/"+"abcdefgh"[i%8:i%8+1]+"/1")
			}
		})
	}
	all.Wait()
	s := &site{Middleware: m, t: t}
	if n := s.counts("/a/{id}").admitted; n < 390 || n > 400 {
		t.Errorf("%d requests of a route: want nearly 400", n)
	}
}
