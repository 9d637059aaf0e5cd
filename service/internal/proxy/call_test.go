package proxy_test

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/proxy"
)

// A reaching returns a proxy in front of an origin.
type reaching func(*testing.T, origin, proxy.Config) *proxy.Proxy

// allWays runs a test in virtual time in all ways in which a proxy sends a request: with an
// http.RoundTripper, and with its own client, on a new connection or on an idle one.
func allWays(t *testing.T, name string, f func(*testing.T, reaching)) {
	for way, reach := range map[string]reaching{
		"RoundTripper": func(t *testing.T, o origin, cfg proxy.Config) *proxy.Proxy {
			cfg.Transport = o
			return newProxy(t, cfg)
		},
		"new connection": func(t *testing.T, o origin, cfg proxy.Config) *proxy.Proxy {
			cfg.Dial = overHTTP(t, o)
			return newProxy(t, cfg)
		},
		"idle connection": func(t *testing.T, o origin, cfg proxy.Config) *proxy.Proxy {
			first := true
			cfg.Dial = overHTTP(t, func(r *http.Request) (*http.Response, error) {
				if first {
					first = false
					return answer(200), nil
				}
				return o(r)
			})
			p := newProxy(t, cfg)
			if w := ask(t.Context(), p); w.Code != 200 {
				t.Fatalf("status %d: want 200", w.Code)
			}
			return p
		},
	} {
		t.Run(name+", "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, reach) })
		})
	}
}

// overHTTP serves an origin over HTTP/1.1 in memory, and returns how to reach it.
func overHTTP(t *testing.T, o origin) func(context.Context, string, string) (net.Conn, error) {
	ln := pipenet.Listen()
	srv := &http.Server{ErrorLog: silent, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, err := o(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Dial
}

// A client with a deadline gets its answer then, however early that is.
func TestDeadlineOnIdleConnection(t *testing.T) {
	allWays(t, "", func(t *testing.T, reach reaching) {
		p := reach(t, answers(200, s), proxy.Config{})
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer leave()
		began := time.Now()
		if w := ask(ctx, p); w.Code != 499 || time.Since(began) != 5*time.Millisecond {
			t.Errorf("%d after %v: want 499 after 5ms", w.Code, time.Since(began))
		}
		synctest.Wait()
		want(t, p, 1, 1)
		time.Sleep(s)
		want(t, p, 0, 0)
	})
}

// byHand returns a proxy with an idle connection to an origin, and the origin's end of it.
func byHand(t *testing.T, cfg proxy.Config) (*proxy.Proxy, wire) {
	t.Helper()
	dialed := make(chan net.Conn, 1)
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		dialed <- ours
		return theirs, nil
	}
	p := newProxy(t, cfg)
	first := asking(t, p)
	conn := <-dialed
	o := wire{t, conn, bufio.NewReader(conn)}
	o.requested()
	o.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	if w := <-first; w.Code != 200 {
		t.Fatalf("status %d: want 200", w.Code)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return p, o
}

// asking sends a request, and returns where its answer comes.
func asking(t *testing.T, p *proxy.Proxy) <-chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- ask(t.Context(), p) }()
	return answered
}

// requested waits for a request.
func (w wire) requested() {
	w.t.Helper()
	if _, err := http.ReadRequest(w.r); err != nil {
		w.t.Fatal(err)
	}
}

// An answer may stop at any point. If its header is not whole when the Timeout is over, the client
// gets 504, and the unit is free when the rest has come.
func TestAnswerThatStops(t *testing.T) {
	const whole = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
	for cut := range len(whole) {
		synctest.Test(t, func(t *testing.T) {
			p, o := byHand(t, proxy.Config{Timeout: 5 * s, AbandonedHold: 10 * s})
			began := time.Now()
			w := slowHints{httptest.NewRecorder(), func() {}}
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
			}()
			o.requested()
			o.send(whole[:cut])
			if <-done; w.Code != 504 || time.Since(began) != 5*s {
				t.Errorf("stops after %d bytes: %d after %v: want 504 after 5s", cut, w.Code, time.Since(began))
			}
			want(t, p, 1, 1)
			time.Sleep(s)
			o.send(whole[cut:])
			synctest.Wait()
			want(t, p, 0, 0)
		})
	}
}

// Work that is held for too long loses its connection.
func TestHoldOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := byHand(t, proxy.Config{Timeout: 5 * s, AbandonedHold: 10 * s})
		answered := asking(t, p)
		o.requested()
		if w := <-answered; w.Code != 504 {
			t.Errorf("status %d: want 504", w.Code)
		}
		want(t, p, 1, 1)
		if o.receive() != nil {
			t.Error("the origin gets more")
		}
		want(t, p, 0, 0)
	})
}

// slowHints is a client that takes its time for a 1xx answer.
type slowHints struct {
	*httptest.ResponseRecorder
	during func()
}

func (w slowHints) WriteHeader(code int) {
	if code < 200 {
		w.during()
		return
	}
	w.ResponseRecorder.WriteHeader(code)
}

// The Timeout and the departure of a client count, too, if they fall into a 1xx answer.
func TestEventInHints(t *testing.T) {
	for _, tt := range []struct {
		rest   string // of the answers, after the 1xx one
		leaves bool
		want   int
	}{
		{"", false, 504},
		{"", true, 499},
		{"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nbegin", true, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := proxy.Config{Timeout: 5 * s, AbandonedHold: 3 * s}
			if tt.leaves {
				cfg.Timeout = -1
			}
			p, o := byHand(t, cfg)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			w := slowHints{httptest.NewRecorder(), func() {
				if tt.leaves {
					leave()
				}
				time.Sleep(7 * s)
			}}
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			}()
			o.requested()
			o.send("HTTP/1.1 103 Early Hints\r\n\r\n" + tt.rest)
			if <-done; w.Code != tt.want {
				t.Errorf("%+v: status %d", tt, w.Code)
			}
			if o.receive() != nil { // waits until the proxy closes the connection
				t.Error("the origin gets more")
			}
			synctest.Wait()
			want(t, p, 0, 0)
		})
	}
}

// The header of a 1xx answer to HTTP/2 is one that net/http copies before it sends it.
func TestHintsOverHTTP2(t *testing.T) {
	p := newProxy(t, proxy.Config{ClientTimeout: -1, Transport: origin(func(r *http.Request) (*http.Response, error) {
		return answer(200), httptrace.ContextClientTrace(r.Context()).Got1xxResponse(103, textproto.MIMEHeader{"Link": {"</a>"}})
	})})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.ProtoMajor = 2
	w := slowHints{ResponseRecorder: httptest.NewRecorder()}
	informed := 0
	w.during = func() {
		informed++
		if _, ok := w.Header()["Content-Length"]; !ok || w.Header().Get("Link") != "</a>" {
			t.Errorf("%v: want a Content-Length without a value", w.Header())
		}
	}
	p.ServeHTTP(w, r)
	if _, ok := w.Header()["Content-Length"]; ok || informed != 1 || w.Code != 200 {
		t.Errorf("%d, %v, %d 1xx answers", w.Code, w.Header(), informed)
	}
}

// A client that leaves at once is noticed at once if nothing is held for it.
func TestLeaveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, o := byHand(t, proxy.Config{AbandonedHold: -1})
		ctx, leave := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Millisecond, leave)
		go func() { ask(ctx, p) }()
		o.requested()
		if o.receive() != nil || time.Since(began) != time.Millisecond {
			t.Errorf("the origin's connection ends after %v: want 1ms", time.Since(began))
		}
		synctest.Wait()
		want(t, p, 0, 0)
	})
}

// The address of an origin may have a name that is not of ASCII.
func TestInternationalName(t *testing.T) {
	var dialed string
	p := newProxy(t, proxy.Config{Origins: []string{"http://bücher.test"}, Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
		dialed = addr
		return nil, io.ErrClosedPipe
	}})
	if ask(t.Context(), p); dialed != "xn--bcher-kva.test:80" {
		t.Errorf("dialed %q", dialed)
	}
}

// A request with a large header gets an early answer, although the origin does not read all of it.
func TestEarlyAnswerToLargeHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, proxy.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.ReadFull(ours, make([]byte, 100))
				_, _ = io.WriteString(ours, "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			}()
			return theirs, nil
		}})
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header["Cookie"] = []string{strings.Repeat("a", 20<<10)}
		w := httptest.NewRecorder()
		began := time.Now()
		if p.ServeHTTP(w, r); w.Code != 431 || time.Since(began) > s {
			t.Errorf("%d after %v: want 431", w.Code, time.Since(began))
		}
	})
}
