package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy"
)

// newProxy returns a proxy that is silent and, unless cfg says otherwise, has
// one permit and no queue.
func newProxy(t testing.TB, cfg proxy.Config) *proxy.Proxy {
	t.Helper()
	if cfg.Origins == nil {
		cfg.Origins = []string{"http://origin.test"}
	}
	if cfg.Limit == (proxy.Limit{}) && cfg.Auto == (limit.Config{}) {
		cfg.Limit = proxy.FixedLimit(1)
	}
	if cfg.Queue == 0 {
		cfg.Queue = -1
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p, err := proxy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An origin in memory: what it does takes virtual time.
type origin func(*http.Request) (*http.Response, error)

func (o origin) RoundTrip(r *http.Request) (*http.Response, error) { return o(r) }

// answers is an origin that reads the request and answers after d, or sooner
// if the request is cancelled.
func answers(status int, d time.Duration) origin {
	return func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(d):
			return answer(status), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func answer(status int) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader("ok")), ContentLength: 2,
	}
}

// ask sends a request straight to the handler.
func ask(ctx context.Context, h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://proxy.test/", nil))
	return w
}

// want compares the state of a proxy.
func want(t testing.TB, p *proxy.Proxy, inflight, abandoned int) {
	t.Helper()
	if s := p.Stats(); s.Inflight != inflight || s.Abandoned != abandoned {
		t.Errorf("%d in flight, %d of them abandoned: want %d and %d", s.Inflight, s.Abandoned, inflight, abandoned)
	}
}

// long expects n long-lived exchanges, and nothing else in flight.
func long(t testing.TB, p *proxy.Proxy, n int) {
	t.Helper()
	if s := p.Stats(); s.Inflight != 0 || s.LongLived != n {
		t.Errorf("%d in flight, %d long-lived: want 0 and %d", s.Inflight, s.LongLived, n)
	}
}

// A wire is a client's connection to a proxy, spoken by hand.
type wire struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func (w wire) send(s string) {
	w.t.Helper()
	if _, err := io.WriteString(w.conn, s); err != nil {
		w.t.Fatalf("send %q: %v", s, err)
	}
}

// receive reads a whole answer, or returns nil if the connection is closed.
func (w wire) receive() *http.Response {
	w.t.Helper()
	resp, err := http.ReadResponse(w.r, nil)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// overWire runs f in virtual time with a client's connection to the proxy.
func overWire(t *testing.T, cfg proxy.Config, f func(*testing.T, *proxy.Proxy, wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, cfg)
		ln := testrig.Listen()
		srv := &http.Server{Handler: p, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		go func() { _ = srv.Serve(p.Listener(ln)) }()
		client := ln.Conn(t)
		f(t, p, wire{t, client, bufio.NewReader(client)})
		client.Close()
		srv.Close()
		synctest.Wait()
		time.Sleep(time.Hour) // whatever was abandoned is over by now
		want(t, p, 0, 0)
		if n := p.Stats().Connections; n != 0 {
			t.Errorf("%d connections: want none", n)
		}
	})
}
