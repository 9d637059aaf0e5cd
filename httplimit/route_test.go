package httplimit

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
)

// A limit that may have requests of several routes is told the route of each.
func TestRouteOfALimit(t *testing.T) {
	for name, tt := range map[string]struct {
		perClass bool
		class    func(*http.Request) string
		patterns string   // of the mux behind the Middleware
		want     []string // the routes of GET /item/17 and POST /dir/b
	}{
		"one limit":                    {false, nil, "", []string{"/item/*", "POST /dir/b"}},
		"one limit, a mux":             {false, nil, "/item/{id}", []string{"/item/{id}", "POST /dir/b"}},
		"one limit, classes":           {false, func(*http.Request) string { return "all" }, "", []string{"all", "all"}},
		"one limit, an empty class":    {false, func(*http.Request) string { return "" }, "", []string{"/item/*", "POST /dir/b"}},
		"a limit each":                 {true, nil, "/item/{id}", []string{"", "POST /dir/b"}},
		"a limit each, routes unknown": {true, nil, "", []string{"/item/*", "POST /dir/b"}},
		"a limit each, classes":        {true, func(*http.Request) string { return "all" }, "", []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := new(testrig.Limiter)
			cfg := Config{Class: tt.class}
			if tt.perClass {
				cfg.PerClass = func(string) weir.Limiter { return asked }
			} else {
				cfg.Limiter = asked
			}
			var h http.Handler = http.HandlerFunc(nothing)
			if tt.patterns != "" {
				mux := http.NewServeMux()
				mux.Handle(tt.patterns, h)
				mux.Handle("/dir/", h)
				h = mux
			}
			h = middleware(t, cfg).Handler(h)
			h.ServeHTTP(&blank{http.Header{}}, testrig.Request("GET", "/item/17"))
			h.ServeHTTP(&blank{http.Header{}}, testrig.Request("POST", "/dir/b"))
			for i, c := range asked.Asked() {
				if c.Route != tt.want[i] {
					t.Errorf("request %d has the route %q: want %q", i, c.Route, tt.want[i])
				}
			}
		})
	}
}

// The route joins the class of an outer handler. Its route stays.
func TestRouteOfAnOuterHandler(t *testing.T) {
	asked := new(testrig.Limiter)
	h := middleware(t, Config{Limiter: asked}).Handler(http.HandlerFunc(nothing))
	r := testrig.Request("GET", "/items")
	for _, c := range []weir.Class{{Tenant: "ada"}, {Tenant: "ada", Route: "reports"}} {
		h.ServeHTTP(&blank{http.Header{}}, r.WithContext(weir.WithClass(r.Context(), c)))
	}
	got := asked.Asked()
	if got[0] != (weir.Class{Tenant: "ada", Route: "/items"}) || got[1] != (weir.Class{Tenant: "ada", Route: "reports"}) {
		t.Errorf("the limit is asked with %+v", got)
	}
}
