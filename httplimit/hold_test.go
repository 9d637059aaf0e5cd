package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
)

// The unit is there for as long as the handler runs, and no longer; and it is
// given back once, however the handler ends.
func TestAUnitIsHeldUntilTheHandlerHasEnded(t *testing.T) {
	inside := func(t *testing.T, v *testrig.Limiter) { v.WantHeld(t, 1, "in the handler") }
	for _, tt := range []struct {
		rule string
		run  func(t *testing.T, v *testrig.Limiter, w http.ResponseWriter)
		want weir.Outcome
	}{
		{"without an answer", func(*testing.T, *testrig.Limiter, http.ResponseWriter) {}, weir.Success},
		{"after an answer", func(t *testing.T, v *testrig.Limiter, w http.ResponseWriter) {
			io.WriteString(w, "hello")
			inside(t, v)
		}, weir.Success},
		{"after a part of an answer", func(t *testing.T, v *testrig.Limiter, w http.ResponseWriter) {
			for range 3 {
				io.WriteString(w, "part")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second / 4)
				inside(t, v)
			}
		}, weir.Success},
		{"panic", func(*testing.T, *testrig.Limiter, http.ResponseWriter) { panic("a bug") }, weir.Ignored},
		{"panic after an answer", func(_ *testing.T, _ *testrig.Limiter, w http.ResponseWriter) {
			w.WriteHeader(503)
			panic("a bug")
		}, weir.Ignored},
		{"http.ErrAbortHandler", func(*testing.T, *testrig.Limiter, http.ResponseWriter) { panic(http.ErrAbortHandler) }, weir.Ignored},
		{"a panic of nil", func(*testing.T, *testrig.Limiter, http.ResponseWriter) { panic(nil) }, weir.Ignored},
		{"runtime.Goexit", func(*testing.T, *testrig.Limiter, http.ResponseWriter) { runtime.Goexit() }, weir.Ignored},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			v := new(testrig.Limiter)
			s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, _ *http.Request) {
				inside(t, v)
				tt.run(t, v, w)
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				s.do(testrig.Request("GET", "/"))
			}()
			<-done
			v.WantEnded(t, tt.want)
			if n := s.counts(""); n.admitted != 1 || n.outcomes[tt.want] != 1 || total(n.outcomes) != 1 {
				t.Errorf("%+v", n)
			}
			s.handler = s.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			s.get(200, "/") // what is left of the first is not in the way
			v.WantEnded(t, tt.want, weir.Success)
		})
	}
}

// What the handler answered says how the work went: the first status that is
// final.
func TestOutcomes(t *testing.T) {
	overload := map[int]bool{503: true, 504: true}
	for status := 200; status < 1000; status++ {
		want := weir.Ignored
		switch {
		case overload[status]:
			want = weir.Dropped
		case status < 400:
			want = weir.Success
		}
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103) // is no answer
			w.WriteHeader(status)
			w.WriteHeader(500) // is too late
		})
		s.do(testrig.Request("GET", "/"))
		v.WantEnded(t, want)
	}
}

func TestOutcomesByContext(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		status int
		want   weir.Outcome
	}{
		{"in time", deadlineIn(2 * time.Second), 200, weir.Success},
		{"after the deadline", deadlineIn(time.Second / 2), 200, outcome.Late},
		{"at the deadline", deadlineIn(time.Second), 200, outcome.Late},
		{"after the deadline, with an error of its own", deadlineIn(time.Second / 2), 500, outcome.Late},
		{"after the deadline, with a sign of overload", deadlineIn(time.Second / 2), 503, outcome.Late},
		{"the client has left", leavesIn(time.Second / 2), 200, outcome.Gone},
		{"the client has left, and the handler could not go on", leavesIn(time.Second / 2), 503, outcome.Gone},
	} {
		bubble(t, tt.rule, func(t *testing.T) {
			v := new(testrig.Limiter)
			s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Second)
				synctest.Wait()
				w.WriteHeader(tt.status)
			})
			ctx, cancel := tt.ctx(t.Context())
			defer cancel()
			s.do(testrig.Request("GET", "/").WithContext(ctx))
			v.WantEnded(t, tt.want)
			if c := s.Stats().Classes[0]; (c.Wasted == 1) != (tt.want != weir.Success) {
				t.Errorf("%s: %d wasted", tt.want, c.Wasted)
			}
		})
	}
}

func deadlineIn(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func leavesIn(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(d, cancel)
		return ctx, cancel
	}
}

// A connection that was taken over is no work in flight, and says nothing about
// load.
func TestAHijackedConnectionHoldsNoUnit(t *testing.T) {
	v, hijacked, finish, done := new(testrig.Limiter), make(chan bool), make(chan bool), make(chan bool)
	s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		rw.Flush()
		hijacked <- true
		if line, err := rw.ReadString('\n'); err == nil {
			rw.WriteString(line)
			rw.Flush()
		}
		<-finish
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("Write after Hijack: %v", err)
		}
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.handler.ServeHTTP(w, r)
		done <- true
	}))
	defer srv.Close()
	resp := fetchFrom(t, srv, testrig.Request("GET", "/", "Connection: Upgrade", "Upgrade: echo"))
	<-hijacked
	conn := resp.Body.(io.ReadWriteCloser)
	io.WriteString(conn, "hello\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" {
		t.Errorf("%q, %v", line, err)
	}
	conn.Close()
	v.WantHeld(t, 0, "while the handler runs")
	if n := s.Stats().LongLived; n != 1 {
		t.Errorf("%d long-lived requests: want one", n)
	}
	finish <- true
	<-done
	if n := s.Stats().LongLived; n != 0 {
		t.Errorf("%d long-lived requests: want none", n)
	}
	v.WantEnded(t, weir.Ignored)
}

// unwrapper is the ResponseWriter of a middleware in front, with Unwrap alone.
type unwrapper struct{ inner http.ResponseWriter }

func (u unwrapper) Header() http.Header         { return u.inner.Header() }
func (u unwrapper) Write(p []byte) (int, error) { return u.inner.Write(p) }
func (u unwrapper) WriteHeader(status int)      { u.inner.WriteHeader(status) }
func (u unwrapper) Unwrap() http.ResponseWriter { return u.inner }

// A middleware in front does not hide that a connection was hijacked.
func TestAHijackBehindAMiddlewareHoldsNoUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := new(testrig.Limiter)
		s := newSite(t, Config{Limiter: v}, func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			v.WantHeld(t, 0, "after Hijack")
			conn.Close()
		})
		l := newLine(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.handler.ServeHTTP(unwrapper{w}, r)
		})))
		l.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		l.hear()
		synctest.Wait()
		v.WantEnded(t, weir.Ignored)
	})
}

// fetchFrom sends a request to a server.
func fetchFrom(t testing.TB, srv *httptest.Server, r *http.Request) *http.Response {
	t.Helper()
	out, err := http.NewRequestWithContext(t.Context(), r.Method, srv.URL+r.URL.RequestURI(), r.Body)
	testrig.Must(t, err)
	out.Header, out.ContentLength = r.Header, r.ContentLength
	if r.Body == http.NoBody {
		out.Body = nil
	}
	resp, err := srv.Client().Do(out)
	testrig.Must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// read returns the rest of a response's body.
func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	var b strings.Builder
	if _, err := io.Copy(&b, resp.Body); err != nil {
		t.Errorf("%s: %v", resp.Request.URL, err)
	}
	return b.String()
}
