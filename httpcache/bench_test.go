package httpcache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/internal/testrig"
)

// A sink is a ResponseWriter that keeps nothing but its header, as a server
// would give one to each request.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

// BenchmarkHit is a handler that writes a kilobyte with three headers: by
// itself; out of the cache; out of the cache where it varies; and each over real
// HTTP.
func BenchmarkHit(b *testing.B) {
	page := []byte(strings.Repeat("0123456789abcdef", 64))
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Length", fmt.Sprint(len(page)))
		h.Set("Etag", `"v1"`)
		_, _ = w.Write(page)
	})
	varying := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding")
		bare(w, r)
	})
	c, err := New(Config{DefaultTTL: time.Hour})
	testrig.Must(b, err)
	for _, bm := range []struct {
		name string
		h    http.Handler
	}{{"bare", bare}, {"hit", c.Handler(bare)}, {"hit-vary", c.Handler(varying)}} {
		b.Run(bm.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "/calculate?n=12", nil)
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("User-Agent", "bench")
			bm.h.ServeHTTP(&sink{make(http.Header)}, r)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				w := &sink{make(http.Header)}
				for pb.Next() {
					clear(w.header)
					bm.h.ServeHTTP(w, r)
				}
			})
		})
		b.Run(bm.name+"/http", func(b *testing.B) {
			s := httptest.NewServer(bm.h)
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				resp, err := s.Client().Get(s.URL + "/calculate?n=12")
				testrig.Must(b, err)
				resp.Body.Close()
			}
		})
	}
}

// A hit allocates the values of the headers, what tells the age, and the
// lookup.
func TestAHitAllocatesLittle(t *testing.T) {
	g := newRig(t, Config{DefaultTTL: time.Hour}, text("v", "X: y"))
	r := testrig.Request("GET", "/calculate?n=12")
	w := &sink{make(http.Header)}
	if n := testing.AllocsPerRun(100, func() {
		clear(w.header)
		g.handler.ServeHTTP(w, r)
	}); n > 6 {
		t.Errorf("%v allocations: want at most 6", n)
	}
}

// A request that goes past the cache allocates no more than its wrapper of the
// ResponseWriter: the chain of limiters is made once.
func TestAPassAllocatesLittle(t *testing.T) {
	g := newRig(t, Config{Refresh: cache.Refresh{Limiter: weir.Chain()}}, text("v"))
	r := testrig.Request("OPTIONS", "/calculate?n=12")
	w := &sink{make(http.Header)}
	if n := testing.AllocsPerRun(100, func() {
		clear(w.header)
		g.handler.ServeHTTP(w, r)
	}); n > 1 {
		t.Errorf("%v allocations: want at most 1", n)
	}
}
