package httpcache

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/internal/testrig"
)

// A rig is a cache around one handler that counts its runs.
type rig struct {
	*Cache
	t       *testing.T
	handler http.Handler
	runs    atomic.Int64
}

func newRig(t *testing.T, cfg Config, h http.HandlerFunc) *rig {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{Cache: c, t: t}
	g.handler = c.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.runs.Add(1)
		h(w, r)
	}))
	return g
}

// do sends a request with a client that can leave, as with a server.
func (g *rig) do(r *http.Request) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r.WithContext(ctx))
	return w
}

func (g *rig) get(url string, headers ...string) *httptest.ResponseRecorder {
	return g.do(testrig.Request("GET", url, headers...))
}

// ran fails the test if the handler has not run that often.
func (g *rig) ran(want int64, when string) {
	g.t.Helper()
	if n := g.runs.Load(); n != want {
		g.t.Errorf("%s: the handler has run %d times: want %d", when, n, want)
	}
}

// is fails the test if an answer is not that.
func is(t *testing.T, w *httptest.ResponseRecorder, status int, body, cacheStatus string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body || w.Header().Get("Cache-Status") != cacheStatus {
		t.Errorf("%d %q, Cache-Status %q: want %d %q, %q", w.Code, w.Body, w.Header().Get("Cache-Status"), status, body, cacheStatus)
	}
}

// text answers with a body and headers given as "Name: value".
func text(body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		testrig.AddHeader(w.Header(), headers...)
		fmt.Fprint(w, body)
	}
}
