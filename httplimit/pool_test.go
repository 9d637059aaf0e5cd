package httplimit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
)

// Requests of all sorts, at once: each gets what is its own, and gives back what
// it held once. What one request has been is nothing to the next.
func TestVisitsShareNothing(t *testing.T) {
	const each, sorts, clients = 100, 8, 8
	many := allowAt(t, "many", gcra.Per(1, time.Hour, 1<<20))
	v := new(testrig.Limiter)
	s := newSite(t, Config{Rules: []Rule{many.Cost(byHeader)}, Limiter: v}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/panic":
			w.WriteHeader(503)
			panic(http.ErrAbortHandler)
		case "/hijack":
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				c.Close()
			}
		case "/overload":
			w.WriteHeader(503)
		case "/use":
			Use(w, 7)
		case "/use-nothing":
			Use(w, 0)
		case "/body":
			w.Write(body)
		case "/silent":
		default:
			io.WriteString(w, r.URL.Path)
		}
	})
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			client := fmt.Sprint(n)
			for i := range each {
				for _, path := range []string{"/panic", "/hijack", "/overload", "/use", "/use-nothing", "/body", "/silent", "/other"} {
					visitOnce(t, s, path, client, fmt.Sprint(n, ":", i))
				}
			}
		})
	}
	all.Wait()
	v.WantHeld(t, 0, "at the end")
	const sent = each * clients
	n := s.counts("")
	if n.admitted != sorts*sent || n.refused != 0 || n.outcomes[weir.Ignored] != 2*sent ||
		n.outcomes[weir.Dropped] != sent || n.outcomes[weir.Success] != 5*sent {
		t.Errorf("%+v: want %d of each sort", n, sent)
	}
	for n := range clients {
		// Two of each eight cost 7 and nothing, the others 1.
		many.left(t, fmt.Sprint(n), 1<<20-each*(7+6), "at the end")
	}
}

// visitOnce sends a request of a sort, and checks its answer.
func visitOnce(t *testing.T, s *site, path, client, text string) {
	r := testrig.Request("POST", path, "X-Client: "+client)
	if path != "/silent" {
		r = httptest.NewRequest("POST", path, strings.NewReader(text))
		r.Header.Set("X-Client", client)
	}
	rec := &hijackable{ResponseRecorder: httptest.NewRecorder()}
	var w http.ResponseWriter = rec
	if path != "/hijack" {
		w = rec.ResponseRecorder
	}
	func() {
		defer func() { _ = recover() }()
		s.handler.ServeHTTP(w, r)
	}()
	want, body := 200, ""
	switch path {
	case "/panic", "/overload":
		want = 503
	case "/body":
		body = text
	case "/other":
		body = path
	}
	if rec.Code != want || rec.Body.String() != body || len(rec.Header()["Ratelimit"]) != 1 {
		t.Errorf("%s: %d %q %v", path, rec.Code, rec.Body, rec.Header())
	}
}

// The limit holds at every instant, whatever becomes of the requests.
func TestNoUnitIsGivenBackTwice(t *testing.T) {
	v, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(4), Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	var inside, most atomic.Int64
	s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, r *http.Request) {
		now := inside.Add(1)
		defer inside.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		runtime.Gosched()
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	})
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for range 1000 {
				func() {
					defer func() { _ = recover() }()
					s.do(testrig.Request("GET", [2]string{"/", "/panic"}[n%2]))
				}()
			}
		})
	}
	all.Wait()
	n, g := s.counts(""), v.Stats()
	if n.admitted+n.refused != 16000 || total(n.outcomes) != n.admitted || g.Inflight != 0 || most.Load() > 4 {
		t.Errorf("%+v, %d at a time, %d units held at the end", n, most.Load(), g.Inflight)
	}
}

// A hijackable response is one on a connection that can be taken over.
type hijackable struct{ *httptest.ResponseRecorder }

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, other := net.Pipe()
	other.Close()
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}
