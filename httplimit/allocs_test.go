//go:build !race

package httplimit

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

// Acceptance: what a Middleware may allocate, admitted or refused.
func TestAllocationsOfAMiddleware(t *testing.T) {
	r := testrig.Request("GET", "/x")
	r.Pattern = "GET /x"
	for _, c := range cases(t) {
		h := middleware(t, c.cfg).Handler(http.HandlerFunc(nothing))
		w := &blank{http.Header{}}
		if n := testing.AllocsPerRun(1000, func() {
			clear(w.h)
			h.ServeHTTP(w, r)
		}); n > c.allocs {
			t.Errorf("%s: %v allocations: want %v at most", c.name, n, c.allocs)
		}
	}
}

// Nor do requests that are exempt, or that a shadow lets in.
func TestAllocations(t *testing.T) {
	for name, cfg := range map[string]Config{
		"exempt": {Exempt: []string{"/static/"}, PerClass: Auto},
		"shadow": {PerClass: Auto, Shadow: true},
	} {
		h := middleware(t, cfg).Handler(http.HandlerFunc(nothing))
		w, r := &blank{http.Header{}}, testrig.Request("GET", "/static/a")
		r.Pattern = "GET /static/a"
		if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
