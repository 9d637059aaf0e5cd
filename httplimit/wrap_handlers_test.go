package httplimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
)

func TestTimeoutHandlers(t *testing.T) {
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	bubble(t, "inside", func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v}, http.TimeoutHandler(hangs, time.Second, "slow").ServeHTTP)
		if w := s.get(503, "/"); w.Body.String() != "slow" {
			t.Errorf("%q", w.Body)
		}
		v.WantEnded(t, weir.Dropped)
	})
	bubble(t, "outside", func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v}, hangs)
		w := httptest.NewRecorder()
		http.TimeoutHandler(s.handler, time.Second, "slow").ServeHTTP(w, testrig.Request("GET", "/"))
		time.Sleep(time.Second)
		if w.Code != 503 || w.Body.String() != "slow" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		v.WantEnded(t, outcome.Late)
	})
}

func TestMaxBytesReader(t *testing.T) {
	over(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3))
		if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
			t.Error(err)
		}
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}, func(t *testing.T, _ int, srv *httptest.Server, v *testrig.Limiter) {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("hello")))
		r.ContentLength = -1
		if resp := fetchFrom(t, srv, r); resp.StatusCode != 413 {
			t.Errorf("%d", resp.StatusCode)
		}
	})
}

// A proxy behind the Middleware passes on hints, trailers, and other protocols.
func TestAReverseProxy(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
			rw.Flush()
			line, _ := rw.ReadString('\n')
			rw.WriteString(line)
			rw.Flush()
			return
		}
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
		w.Header().Set("Sum", fmt.Sprint(len(b)))
	}))
	defer origin.Close()
	to, _ := url.Parse(origin.URL)
	proxy := httputil.NewSingleHostReverseProxy(to)
	over(t, proxy.ServeHTTP, func(t *testing.T, version int, srv *httptest.Server, _ *testrig.Limiter) {
		hints := 0
		body := strings.Repeat("x", 1<<20)
		out, _ := http.NewRequest("POST", srv.URL, io.MultiReader(strings.NewReader(body)))
		resp, err := srv.Client().Do(out.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hints = code; return nil },
		})))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := read(t, resp); got != body || hints != 103 || resp.Trailer.Get("Sum") != fmt.Sprint(len(body)) {
			t.Errorf("a body of %d, hints %d, trailer %v", len(got), hints, resp.Trailer)
		}
		if version == 1 {
			resp := fetchFrom(t, srv, testrig.Request("GET", "/", "Connection: Upgrade", "Upgrade: echo"))
			conn, ok := resp.Body.(io.ReadWriteCloser)
			if !ok {
				t.Fatalf("%d", resp.StatusCode)
			}
			io.WriteString(conn, "hello\n")
			if line, _ := io.ReadAll(conn); string(line) != "hello\n" {
				t.Errorf("%q", line)
			}
			conn.Close()
		}
	})
}
