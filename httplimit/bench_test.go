package httplimit

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/limit"
)

// A blank is a ResponseWriter that costs nothing.
type blank struct{ h http.Header }

func (b *blank) Header() http.Header         { return b.h }
func (b *blank) Write(p []byte) (int, error) { return len(p), nil }
func (b *blank) WriteHeader(int)             {}

func perAddress(tb testing.TB, q gcra.Quota) Rule {
	lim, err := keyed.New[netip.Addr](q, keyed.Config{})
	testrig.Must(tb, err)
	return PerKey("per-client", lim, Address())
}

func middleware(tb testing.TB, cfg Config) *Middleware {
	tb.Helper()
	m, err := New(cfg)
	testrig.Must(tb, err)
	return m
}

// cases returns the configurations to measure, with the allocations they may cost.
func cases(tb testing.TB) []struct {
	name   string
	cfg    Config
	allocs float64
} {
	none, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(0), Queue: -1})
	testrig.Must(tb, err)
	plenty, nothing := gcra.PerSecond(1e9, 1e9), gcra.Per(1, 90*time.Second, 1)
	return []struct {
		name   string
		cfg    Config
		allocs float64
	}{
		{"auto", Config{PerClass: Auto}, 0},
		{"rule without fields", Config{Rules: []Rule{perAddress(tb, plenty)}, Fields: FieldsNone}, 0},
		{"rule", Config{Rules: []Rule{perAddress(tb, plenty)}}, 3},
		{"rule and auto", Config{Rules: []Rule{perAddress(tb, plenty)}, PerClass: Auto}, 3},
		{"auto for all", Config{Limiter: Auto("")}, 1},
		{"refused by a limit", Config{PerClass: func(string) weir.Limiter { return none }}, 0},
		{"refused by a limit for all", Config{Limiter: none}, 1},
		{"refused by a rule without fields", Config{Rules: []Rule{perAddress(tb, nothing)}, Fields: FieldsNone}, 0},
		{"refused by a rule", Config{Rules: []Rule{perAddress(tb, nothing)}}, 3},
	}
}

func BenchmarkMiddleware(b *testing.B) {
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	r := httptest.NewRequest("GET", "/x", nil)
	r.Pattern = "GET /x"
	for _, c := range cases(b) {
		b.Run(c.name, func(b *testing.B) {
			h := middleware(b, c.cfg).Handler(handler)
			b.ReportAllocs()
			w := &blank{http.Header{}}
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
	b.Run("net/http's own 404", func(b *testing.B) {
		b.ReportAllocs()
		w := &blank{http.Header{}}
		for b.Loop() {
			clear(w.h)
			http.NotFound(w, r)
		}
	})
	b.Run("route lookup", func(b *testing.B) {
		mux := http.NewServeMux()
		mux.Handle("GET /x", handler)
		mux.Handle("GET /y/{id}", handler)
		b.ReportAllocs()
		for b.Loop() {
			mux.Handler(r)
		}
	})
}
