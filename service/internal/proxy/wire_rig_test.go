package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/proxy"
)

// The differential tests send the same bytes through two proxies in memory and in virtual
// time: this one, and httputil.ReverseProxy in an http.Server, with the same transport and in
// front of the same origin. They compare what the client gets and the bytes that the origin
// gets.

// A front is a proxy with its clients and its origin.
type front struct {
	t       testing.TB
	network *testrig.Network // of its clients
	origin  *scripted
	stop    func()
}

// setting says how a front speaks with both sides.
type setting struct {
	tls         *tls.Config // towards clients; nil: none
	http2Origin bool
	origin      http.Handler // if not nil, in place of the scripts
	script      string       // if not empty, for all paths
	rules       string       // of this proxy
}

// newWeir returns this proxy, served as weir proxy does.
func newWeir(t testing.TB, s setting) *front {
	f := &front{t: t, network: testrig.Listen(), origin: newScripted(s)}
	cfg := proxy.Config{Origins: []string{"http://origin.test"}, Dial: f.origin.dial, Limit: proxy.FixedLimit(50)}
	if s.http2Origin {
		cfg.Origins = []string{"h2c://origin.test"}
	}
	if s.rules != "" {
		cfg.LoadRules = (&file{text: s.rules}).load
	}
	p := newProxy(t, cfg)
	conns := connlimit.New(f.network, 100)
	conns.TLS = s.tls
	srv := httpserve.New(p, slog.New(slog.DiscardHandler))
	srv.DisableGeneralOptionsHandler = true
	httpserve.SpeakHTTP2(srv, 30*time.Second)
	srv.ConnState = conns.ConnState
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		return p.ConnContext(conns.ConnContext(ctx, nc), nc)
	}
	go func() { _ = srv.Serve(p.Listener(conns)) }()
	f.stop = func() { srv.Close(); f.origin.stop() }
	return f
}

// replaceMore replaces the headers that SetXForwarded leaves to clients.
func replaceMore(r *httputil.ProxyRequest) {
	if _, sent := r.In.Header["X-Real-Ip"]; sent {
		client, _, _ := net.SplitHostPort(r.In.RemoteAddr)
		r.Out.Header.Set("X-Real-Ip", client)
	}
	if _, sent := r.In.Header["X-Forwarded-Port"]; sent {
		_, port, _ := net.SplitHostPort(r.In.Host)
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			port = "80"
		}
		r.Out.Header.Set("X-Forwarded-Port", port)
	}
}

// newBare returns the proxy of net/http. It answers 502 for a status that HTTP does not have: without
// ModifyResponse, it panics.
func newBare(t testing.TB, s setting) *front {
	f := &front{t: t, network: testrig.Listen(), origin: newScripted(s)}
	target := &url.URL{Scheme: "http", Host: "origin.test"}
	rp := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Trailer = r.In.Trailer // a clone, which gets no values
			r.SetXForwarded()
			replaceMore(r)
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode < 100 {
				return errors.New("an invalid status")
			}
			return nil
		},
		Transport: f.origin.transport(s),
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	srv := httpserve.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rp.ServeHTTP(faithful{w, r}, r)
	}), slog.New(slog.DiscardHandler))
	httpserve.SpeakHTTP2(srv, 30*time.Second)
	if s.tls != nil {
		srv.TLSConfig, srv.Protocols = s.tls.Clone(), nil
		go func() { _ = srv.ServeTLS(f.network, "", "") }()
	} else {
		go func() { _ = srv.Serve(f.network) }()
	}
	f.stop = func() { srv.Close(); f.origin.stop() }
	return f
}

// A faithful is a writer for the proxy of net/http, which otherwise adds a Content-Type, sends 1xx
// answers to clients of HTTP/1.0, and loses what comes right behind a request for an upgrade.
type faithful struct {
	http.ResponseWriter
	asked *http.Request
}

func (w faithful) WriteHeader(code int) {
	h := w.Header()
	switch _, ok := h["Content-Type"]; {
	case code < 200 && code != http.StatusSwitchingProtocols && !w.asked.ProtoAtLeast(1, 1):
		return
	case code >= 200 && !ok:
		h["Content-Type"] = nil
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w faithful) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	behind, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	return prefixed{c, io.MultiReader(bytes.NewReader(behind), c)}, buffered, nil
}

type prefixed struct {
	net.Conn
	all io.Reader
}

func (c prefixed) Read(b []byte) (int, error) { return c.all.Read(b) }

func (w faithful) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dial opens a connection of a client.
func (f *front) dial() net.Conn { return f.network.DialFrom(f.t, "192.0.2.1:4711") }

// dialer returns a function that dials, for an http.Transport.
func (f *front) dialer() func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return f.dial(), nil }
}

// A verdict holds the effects of the bytes of a client.
type verdict struct {
	answers []string // that the client got
	origin  string   // bytes that it got
	closed  bool     // the connection, by the proxy
}

func (v verdict) String() string {
	return fmt.Sprintf("answers:\n\t%s\norigin:\n\t%s\nclosed: %v",
		strings.Join(v.answers, "\n\t"), strings.ReplaceAll(v.origin, "\n", "\n\t"), v.closed)
}

// judge sends bytes over a new connection, and returns what becomes of them when nothing
// moves any more.
func judge(t testing.TB, f *front, sends string) verdict {
	c := f.dial()
	defer c.Close()
	var got testrig.Buffer
	var closed atomic.Bool
	go func() {
		_, err := io.Copy(&got, c)
		closed.Store(err == nil)
	}()
	go func() { _, _ = io.WriteString(c, sends) }()
	synctest.Wait()
	time.Sleep(2 * time.Second) // over the time-out for 100 Continue
	synctest.Wait()
	return verdict{answersIn(got.String(), sends), f.origin.got.String(), closed.Load()}
}

// answersIn parses the answers that a client got to its requests, as far as they are HTTP.
func answersIn(got, sends string) (all []string) {
	r := bufio.NewReader(strings.NewReader(got))
	for {
		if _, err := r.Peek(1); err != nil {
			return all
		}
		method := "GET"
		if strings.HasPrefix(sends, "HEAD ") {
			method = "HEAD"
		}
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			rest, _ := io.ReadAll(r)
			return append(all, fmt.Sprintf("%v, then %q", err, rest))
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil && len(body) == 0 { // whether the header came depends on the instant of net/http's first flush
			return all
		}
		text := fmt.Sprintf("%d %s", resp.StatusCode, resp.Proto)
		if own := resp.Header.Get(proxy.ReasonHeader) != "" || resp.StatusCode == 502; !own {
			resp.Header.Del("Date")
			for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
				text += fmt.Sprintf("; %s: %q", name, resp.Header[name])
			}
			text += fmt.Sprintf("; %q, trailer %v, error %v, length %d", body, resp.Trailer, err, resp.ContentLength)
		}
		if resp.StatusCode == http.StatusContinue && len(all) > 0 && all[len(all)-1] == text {
			continue // one of the origin, and one of net/http, in an order that depends on goroutines
		}
		all = append(all, text)
		if resp.StatusCode == http.StatusSwitchingProtocols {
			rest, _ := io.ReadAll(r)
			return append(all, fmt.Sprintf("then %q", rest))
		}
	}
}
