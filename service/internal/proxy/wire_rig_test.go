package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	clients chan net.Conn
	origin  *scripted
	stop    func()
}

// setting says how a front speaks with both sides.
type setting struct {
	tls         *tls.Config // towards clients; nil: none
	http2Origin bool
	origin      http.Handler // if not nil, in place of the scripts
}

// newWeir returns this proxy, served as weir proxy does.
func newWeir(t testing.TB, s setting) *front {
	f := &front{origin: newScripted(s)}
	p := newProxy(t, proxy.Config{Origins: []string{"http://origin.test"}, Transport: f.origin.transport(s), Limit: proxy.FixedLimit(50)})
	ln := newPipes()
	conns := connlimit.New(ln, 100)
	conns.TLS = s.tls
	srv := httpserve.New(p, slog.New(slog.DiscardHandler))
	srv.DisableGeneralOptionsHandler = true
	httpserve.SpeakHTTP2(srv, 30*time.Second)
	srv.ConnState, srv.ConnContext = conns.ConnState, conns.ConnContext
	go func() { _ = srv.Serve(p.Listener(conns)) }()
	f.clients = ln.conns
	f.stop = func() { srv.Close(); f.origin.stop() }
	return f
}

// newBare returns the proxy of net/http.
func newBare(_ testing.TB, s setting) *front {
	f := &front{origin: newScripted(s)}
	target := &url.URL{Scheme: "http", Host: "origin.test"}
	rp := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: f.origin.transport(s),
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	srv := httpserve.New(rp, slog.New(slog.DiscardHandler))
	ln := newPipes()
	httpserve.SpeakHTTP2(srv, 30*time.Second)
	if s.tls != nil {
		srv.TLSConfig, srv.Protocols = s.tls.Clone(), nil
		go func() { _ = srv.ServeTLS(ln, "", "") }()
	} else {
		go func() { _ = srv.Serve(ln) }()
	}
	f.clients = ln.conns
	f.stop = func() { srv.Close(); f.origin.stop() }
	return f
}

// dial opens a connection of a client.
func (f *front) dial() net.Conn {
	client, server := net.Pipe()
	f.clients <- remote{server, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}}
	return client
}

// dialer returns a function that dials, for an http.Transport.
func (f *front) dialer() func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return f.dial(), nil }
}

// A scripted is an origin that records the bytes that it gets. It answers each request with
// the script for its path, or 200.
type scripted struct {
	setting
	mu   sync.Mutex
	got  []*bytes.Buffer // by connection
	real *http.Server
	all  []net.Conn
}

func newScripted(s setting) *scripted {
	o := &scripted{setting: s}
	if s.origin != nil {
		o.real = &http.Server{Handler: s.origin, ErrorLog: silent}
		httpserve.SpeakHTTP2(o.real, 30*time.Second)
	}
	return o
}

func (o *scripted) stop() {
	if o.real != nil {
		o.real.Close()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.all {
		c.Close()
	}
}

// transport returns a transport that reaches the origin.
func (o *scripted) transport(s setting) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(!s.http2Origin)
	protocols.SetUnencryptedHTTP2(s.http2Origin)
	return &http.Transport{
		DialContext: o.dial, Protocols: &protocols, MaxIdleConnsPerHost: 100, DisableCompression: true, ExpectContinueTimeout: time.Second,
	}
}

// A tap records what is read.
type tap struct {
	net.Conn
	mu  *sync.Mutex
	got *bytes.Buffer
}

func (c tap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got.Write(b[:n])
	return n, err
}

func (o *scripted) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	o.mu.Lock()
	defer o.mu.Unlock()
	c := tap{ours, &o.mu, new(bytes.Buffer)}
	o.got, o.all = append(o.got, c.got), append(o.all, ours)
	if o.real != nil {
		ln := newPipes()
		go func() { ln.conns <- c }()
		go func() { _ = o.real.Serve(ln) }()
	} else {
		go o.serve(c)
	}
	return theirs, nil
}

// scripts are the answers of the origin, by path.
var scripts = map[string]string{
	"/":              "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/chunked":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"/trailer":       "HTTP/1.1 200 OK\r\nTrailer: Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSum: 42\r\n\r\n",
	"/unannounced":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nSum: 42\r\n\r\n",
	"/continue":      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/hints":         "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/102":           "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
	"/304":           "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\n\r\n",
	"/until-close":   "HTTP/1.1 200 OK\r\n\r\nuntil the end CLOSE",
	"/http10":        "HTTP/1.0 200 OK\r\n\r\nold CLOSE",
	"/short":         "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nbroken off CLOSE",
	"/bad-chunk":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
	"/two-lengths":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
	"/same-lengths":  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
	"/both-lengths":  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"/obs-fold":      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Folded: a\r\n b\r\n\r\nok",
	"/bare-lf":       "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	"/space-colon":   "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
	"/garbage":       "no HTTP at all CLOSE",
	"/nothing":       " CLOSE",
	"/error":         "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\nbug!",
	"/unavailable":   "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
	"/hop":           "HTTP/1.1 200 OK\r\nConnection: X-Secret, close\r\nX-Secret: a\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok",
	"/cookies":       "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok",
	"/gzip":          "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nzip!",
	"/upgrade":       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ECHO",
	"/wrong-upgrade": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nhello ECHO",
	"/999":           "HTTP/1.1 999 Strange\r\nContent-Length: 0\r\n\r\n",
	"/99":            "HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
}

// serve answers the requests of a connection. A script that ends with CLOSE ends the
// connection after it; one with ECHO sends back what comes.
func (o *scripted) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Header.Get("Expect") != "" && req.URL.Path != "/no-continue" {
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
		if req.Header.Get("Upgrade") == "" {
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
		}
		script, ok := scripts[req.URL.Path]
		if !ok {
			script = scripts["/"]
		}
		if req.Method == http.MethodHead {
			head, _, _ := strings.Cut(script, "\r\n\r\n")
			script = head + "\r\n\r\n"
		}
		text, ends := strings.CutSuffix(script, " CLOSE")
		text, echoes := strings.CutSuffix(text, " ECHO")
		if _, err := io.WriteString(c, text); err != nil || ends {
			return
		}
		if echoes {
			_, _ = io.Copy(c, r)
			return
		}
	}
}

// received returns what the origin got, connection by connection.
func (o *scripted) received() (all []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.got {
		all = append(all, b.String())
	}
	return all
}

// A verdict holds the effects of the bytes of a client.
type verdict struct {
	answers []string // that the client got
	origin  []string // bytes that the origin got
	closed  bool     // the connection, by the proxy
}

func (v verdict) String() string {
	return fmt.Sprintf("answers:\n\t%s\norigin:\n\t%s\nclosed: %v",
		strings.Join(v.answers, "\n\t"), strings.ReplaceAll(strings.Join(v.origin, "\n--\n"), "\n", "\n\t"), v.closed)
}

// judge sends bytes over a new connection, and returns what becomes of them when nothing
// moves any more.
func judge(t testing.TB, f *front, sends string) (v verdict) {
	c := f.dial()
	defer c.Close()
	var mu sync.Mutex
	var got bytes.Buffer
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			mu.Lock()
			got.Write(b[:n])
			v.closed = v.closed || err == io.EOF
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { _, _ = io.WriteString(c, sends) }()
	synctest.Wait()
	time.Sleep(2 * time.Second) // over the time-out for 100 Continue
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	v.answers, v.origin = answersIn(got.Bytes(), sends), f.origin.received()
	return v
}

// answersIn parses the answers that a client got to its requests, as far as they are HTTP.
func answersIn(got []byte, sends string) (all []string) {
	r := bufio.NewReader(bytes.NewReader(got))
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
		all = append(all, text)
		if resp.StatusCode == http.StatusSwitchingProtocols {
			rest, _ := io.ReadAll(r)
			return append(all, fmt.Sprintf("then %q", rest))
		}
	}
}
