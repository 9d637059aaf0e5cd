package httplimit

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
)

// unequal answers at once, but takes 100 ms for paths with dear in them, and does not know those
// with none in them.
func unequal(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "dear") {
		time.Sleep(100 * time.Millisecond)
	}
	if strings.Contains(r.URL.Path, "none") {
		w.WriteHeader(http.StatusNotFound)
	}
	time.Sleep(time.Millisecond)
}

// Where a class has several routes, the dear ones get classes of their own, whatever is between
// the Middleware and the handlers.
func TestDearRoutes(t *testing.T) {
	serving := http.HandlerFunc(unequal)
	routes := http.NewServeMux()
	for _, pattern := range []string{"GET /cheap", "GET /dear/{id}", "/none/", "GET /v1/cheap", "GET /v1/dear/{id}"} {
		routes.Handle(pattern, serving)
	}
	under := func(pattern string, h http.Handler) *http.ServeMux {
		m := http.NewServeMux()
		m.Handle(pattern, h)
		return m
	}
	copying := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes.ServeHTTP(w, r.Clone(r.Context())) })
	stripped := http.StripPrefix("/v1", routes)

	for name, tt := range map[string]struct {
		handler func(m *Middleware) http.Handler
		paths   string // beside each other; # is a number
		classes string // with a limit that has served
	}{
		"no routes":                 {func(m *Middleware) http.Handler { return m.Handler(serving) }, "/cheap /dear/#", "|GET /dear/{id}"},
		"a copy":                    {func(m *Middleware) http.Handler { return m.Handler(copying) }, "/cheap /dear/#", "|GET /dear/{id}"},
		"a catch-all":               {func(m *Middleware) http.Handler { return m.Handler(under("/", serving)) }, "/cheap /dear/#", "/|GET /dear/{id}"},
		"a wildcard at the end":     {func(m *Middleware) http.Handler { return m.Handler(under("/v1/{rest...}", serving)) }, "/v1/cheap /v1/dear/#", "/v1/{rest...}|GET /v1/dear/{id}"},
		"a stripped prefix inside":  {func(m *Middleware) http.Handler { return m.Handler(under("/v1/", stripped)) }, "/v1/cheap /v1/dear/#", "/v1/|GET /v1/dear/{id}"},
		"a stripped prefix outside": {func(m *Middleware) http.Handler { return under("/v1/", http.StripPrefix("/v1", m.Handler(serving))) }, "/v1/cheap /v1/dear/#", "/v1/|GET /dear/{id}"},
		"a mux with routes inside":  {func(m *Middleware) http.Handler { return under("/v1/", m.Handler(routes)) }, "/v1/cheap /v1/dear/#", "GET /v1/cheap|GET /v1/dear/{id}"},
		"a mux behind a prefix":     {func(m *Middleware) http.Handler { return under("/v1/", http.StripPrefix("/v1", m.Handler(routes))) }, "/v1/cheap /v1/dear/#", "GET /cheap|GET /dear/{id}"},
		"what does not exist":       {func(m *Middleware) http.Handler { return m.Handler(serving) }, "/cheap /dear/none", ""},
		"alike":                     {func(m *Middleware) http.Handler { return m.Handler(serving) }, "/cheap /cheap2", ""},
		"one route of a class":      {func(m *Middleware) http.Handler { return m.Handler(routes) }, "/cheap /dear/#", "GET /cheap|GET /dear/{id}"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := middleware(t, Config{PerClass: Auto, Log: slog.New(slog.DiscardHandler)})
				s := &site{Middleware: m, t: t, handler: tt.handler(m)}
				for i := range 100 {
					for path := range strings.FieldsSeq(tt.paths) {
						s.do(testrig.Request("GET", strings.ReplaceAll(path, "#", fmt.Sprint(1000+i))))
					}
				}
				got, want := served(m), strings.Split(tt.classes, "|")
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("classes %q: want %q", got, want)
				}
			})
		})
	}
}

// served returns the classes that have served requests.
func served(m *Middleware) []string {
	classes := map[string]bool{}
	for _, c := range m.Stats().Classes {
		if c.Admitted > 0 {
			classes[c.Class] = true
		}
	}
	return slices.Sorted(maps.Keys(classes))
}

// A dear route keeps its limit if PerClass has none for it alone.
func TestDearRouteWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := Auto("")
		m := middleware(t, Config{Log: slog.New(slog.DiscardHandler), PerClass: func(class string) weir.Limiter {
			if class == "" {
				return shared
			}
			return nil
		}})
		s := &site{Middleware: m, t: t, handler: m.Handler(http.HandlerFunc(unequal))}
		for range 200 {
			s.do(testrig.Request("GET", "/cheap"))
			s.do(testrig.Request("GET", "/dear"))
		}
		if got := served(m); !slices.Equal(got, []string{""}) {
			t.Errorf("classes %q: want the one with a limit", got)
		}
	})
}

// At most eight routes are found by their paths.
func TestDearRoutesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := middleware(t, Config{PerClass: Auto, Log: slog.New(slog.DiscardHandler)})
		s := &site{Middleware: m, t: t, handler: m.Handler(http.HandlerFunc(unequal))}
		for i := range 12 {
			for range 64 {
				s.do(testrig.Request("GET", "/cheap"))
				s.do(testrig.Request("GET", "/dear-"+string(rune('a'+i))))
			}
		}
		if got := served(m); len(got) != 9 {
			t.Errorf("classes %q: want eight, and the class without a name", got)
		}
	})
}
