package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/idna"

	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/http1client"
)

// maxOrigins bounds the number of origins, and so the values of the label origin.
const maxOrigins = 1000

// origins are the servers that requests go to. It is the shell of a balance.Set.
type origins struct {
	list  []*originServer
	epoch time.Time // of Proxy
	log   *slog.Logger

	ordinary transport // to origins other than those of h2c

	mu  sync.Mutex // guards set
	set *balance.Set
}

// An originServer is one origin.
type originServer struct {
	name      string // its URL
	url       *url.URL
	transport http.RoundTripper
	own       bool                          // the transport is the proxy's own
	client    *http1client.Client           // for brief requests; nil: they use the transport
	signs     [loadsign.Count]atomic.Uint64 // of its answers, and missing ones
	ejected   [balance.Causes]atomic.Uint64 // how often it was ejected
	retried   atomic.Uint64                 // requests that went to another origin, because this one did not answer
}

// newOrigins parses the URLs of the origins.
func newOrigins(cfg Config, epoch time.Time, log *slog.Logger) (*origins, error) {
	if n := len(cfg.Origins); n == 0 || n > maxOrigins {
		return nil, fmt.Errorf("proxy: Origins: there are %d: must be 1 to %d", n, maxOrigins)
	}
	s := &origins{epoch: epoch, log: log, set: balance.New(len(cfg.Origins))}
	s.ordinary.Store(newTransport(cfg.Dial, cfg.OriginTLS, false))
	ordinary, cleartext := cmp.Or(cfg.Transport, http.RoundTripper(&s.ordinary)), cmp.Or(cfg.Transport, http.RoundTripper(newTransport(cfg.Dial, nil, true)))
	for _, text := range cfg.Origins {
		u, err := url.Parse(text)
		isUnix := err == nil && u.Scheme == "unix"
		switch {
		case !strings.Contains(text, "://"):
			return nil, fmt.Errorf("proxy: Origins = %q: must begin with a scheme, as in %q", text, withScheme(text))
		case err != nil:
			return nil, fmt.Errorf("proxy: Origins: %w", err)
		case isUnix && (u.Host != "" || len(u.Path) < 2 || u.RawQuery != ""):
			return nil, fmt.Errorf("proxy: Origins = %q: must have the path of a socket alone, as in unix:///run/app.sock", text)
		case !isUnix && (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" || u.Host == ""):
			return nil, fmt.Errorf("proxy: Origins = %q: must be an absolute http, https, h2c or unix URL", text)
		case !isPort(u.Port()):
			return nil, fmt.Errorf("proxy: Origins = %q: must have a port from 1 to 65535, or none", text)
		case u.User != nil || u.Fragment != "":
			return nil, fmt.Errorf("proxy: Origins = %q: must have no user and no fragment", u.Redacted())
		}
		o := &originServer{name: u.String(), url: u, transport: ordinary, own: cfg.Transport == nil}
		dial := cfg.Dial
		if isUnix {
			dial = dialUnix(dial, u.Path)
			o.url = &url.URL{Scheme: "http", Host: "localhost"}
			o.transport = cmp.Or(cfg.Transport, http.RoundTripper(newTransport(dial, nil, false)))
		}
		switch {
		case u.Scheme == "h2c":
			u.Scheme, o.transport = "http", cleartext
		case o.url.Scheme == "http" && cfg.Transport == nil && http1client.Supported:
			o.client = newClient(dial, o.url)
		}
		for _, other := range s.list {
			if other.name == o.name {
				return nil, fmt.Errorf("proxy: Origins = %q: is there twice", text)
			}
		}
		s.list = append(s.list, o)
	}
	return s, nil
}

// withScheme returns a URL for an address of a server, or of a socket as listeners have it.
func withScheme(address string) string {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix://" + path
	}
	return "http://" + address
}

// isPort reports whether a text is a TCP port, or empty.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// Bounds of the idle connections to an origin.
const (
	maxIdle     = 4096 // enough for any limit
	idleTimeout = 90 * time.Second
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialUnix returns a function that connects to the Unix socket at a path.
func dialUnix(dial dialFunc, path string) dialFunc {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "unix", path) }
}

// newClient returns a client for brief requests to an http origin.
func newClient(dial dialFunc, origin *url.URL) *http1client.Client {
	host := origin.Hostname()
	if name, err := idna.Lookup.ToASCII(host); err == nil { // as http.Transport does
		host = name
	}
	addr := net.JoinHostPort(host, cmp.Or(origin.Port(), "80"))
	return &http1client.Client{
		Dial:    func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", addr) },
		MaxIdle: maxIdle, IdleTimeout: idleTimeout,
	}
}

// newTransport returns a transport that differs from http.DefaultTransport for a proxy: it
// has idle connections for the whole limit instead of two, uses no proxy, and does not
// decompress bodies. Over TLS it speaks HTTP/2 if the origin does; with h2c, it speaks
// HTTP/2 without TLS.
func newTransport(dial dialFunc, cfg *tls.Config, h2c bool) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(!h2c)
	protocols.SetHTTP2(!h2c)
	protocols.SetUnencryptedHTTP2(h2c)
	return &http.Transport{
		DialContext:           dial,
		TLSClientConfig:       cfg,
		TLSHandshakeTimeout:   5 * time.Second,
		MaxIdleConnsPerHost:   maxIdle,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
		Protocols:             &protocols,
		// A dead connection of HTTP/2 would otherwise keep all its requests until their time-outs.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}

// A transport is an http.Transport that can be replaced.
type transport struct{ atomic.Pointer[http.Transport] }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.Load().RoundTrip(req)
}

// UseOriginTLS replaces Config.OriginTLS. Requests in flight keep their connections.
func (p *Proxy) UseOriginTLS(cfg *tls.Config) {
	p.origins.ordinary.Swap(newTransport(p.cfg.Dial, cfg, false)).CloseIdleConnections()
}

// heldError says that all origins have asked for a pause.
type heldError time.Duration

func (e heldError) Error() string {
	return fmt.Sprintf("the origin asked for a pause of %v by Retry-After", time.Duration(e))
}

// choose gives a request a place at an origin in proportion to sizes, unless they are nil. It is not avoid, unless
// that is -1.
func (s *origins) choose(now time.Duration, random uint64, avoid int, sizes balance.Sizes, ps *permits) (err error) {
	s.mu.Lock()
	if ps.ticket, ps.placed = s.set.Pick(now, random, avoid, sizes); !ps.placed {
		err = heldError(s.set.Wait(now))
	}
	s.unlock()
	return err
}

// unlock releases the mutex after a call that may have ejected origins as silent.
func (s *origins) unlock() {
	changed := s.set.Changed()
	s.mu.Unlock()
	for _, origin := range changed {
		s.isOut(origin, balance.NoAnswers)
	}
}

// place gives a request a place at any origin but avoid. If all are held, it does nothing.
func (s *origins) place(ps *permits, avoid int) error {
	if err := s.choose(time.Since(s.epoch), rand.Uint64(), avoid, nil, ps); err != nil && avoid >= 0 {
		return errNoOther
	}
	return nil
}

// placeIn gives a request a place at an origin, if that is in.
func (s *origins) placeIn(ps *permits, origin int) bool {
	s.mu.Lock()
	defer s.unlock()
	ps.ticket, ps.placed = s.set.Take(time.Since(s.epoch), origin)
	return ps.placed
}

// withdraw takes the place of a request that has not been sent.
func (s *origins) withdraw(ps *permits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Withdraw(ps.ticket)
	ps.placed = false
}

// await chooses the origin at which a request waits. Then enter or giveUp must follow.
func (s *origins) await(avoid int, sizes balance.Sizes) (origin int, ok bool) {
	s.mu.Lock()
	defer s.unlock()
	return s.set.Await(time.Since(s.epoch), avoid, sizes)
}

// enter gives a request that has waited its place.
func (s *origins) enter(ps *permits, origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ps.ticket, ps.placed = s.set.Enter(time.Since(s.epoch), origin), true
}

func (s *origins) giveUp(origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.GiveUp(origin)
}

// out reports whether an origin is out, and another one is not.
func (s *origins) out(origin int) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.set.Out(time.Since(s.epoch), origin)
}

// sending tells the Set that a client still sends its request.
func (s *origins) sending(origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Sending(origin)
}

// sent tells the Set that an origin has all of a request.
func (s *origins) sent(now time.Duration, origin int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Sent(now, origin)
}

// unchecked tells the Set that there are no health checks.
func (s *origins) unchecked(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Unchecked(now)
}

func (s *origins) leave(t balance.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set.Leave(t)
}

// direct sets the URL of a request to the origin. It keeps the Host.
func (o *originServer) direct(req *http.Request) {
	host := req.Host
	(&httputil.ProxyRequest{Out: req}).SetURL(o.url)
	req.Host = host
}

// judge tells the Set how a request has ended, and logs if that changes the state of the origin.
func (s *origins) judge(now time.Duration, t balance.Ticket, sign loadsign.Sign, r balance.Result, after time.Duration) {
	s.list[t.Origin].signs[sign].Add(1)
	s.change(now, t.Origin, after, func() { s.set.Judge(now, t, r, after) })
}

// checked tells the Set the result of a health check.
func (s *origins) checked(now time.Duration, origin int, well bool) {
	s.change(now, origin, 0, func() { s.set.Checked(now, origin, well) })
}

// change changes the Set, and logs if that changes the state of an origin.
func (s *origins) change(now time.Duration, origin int, after time.Duration, apply func()) {
	o := s.list[origin]
	s.mu.Lock()
	was := s.set.Origin(now, origin).State
	apply()
	changed := s.set.Origin(now, origin)
	s.mu.Unlock()
	switch is := changed.State; {
	case was == is:
	case is == balance.Ejected:
		s.isOut(origin, changed.Cause)
	case is == balance.Held:
		s.log.Warn("the origin answers 503 with Retry-After to all requests: it gets a request each second for a while", "origin", o.name, "retry_after", after)
	case is == balance.Starting:
		s.log.Info("the origin works again", "origin", o.name)
	}
}

// isOut counts and logs that an origin is ejected.
func (s *origins) isOut(origin int, why balance.Cause) {
	o := s.list[origin]
	o.ejected[why].Add(1)
	s.log.Warn("the origin fails: it gets no requests for a while", "origin", o.name, "cause", why.String())
}

// errStatus says that an origin has answered with a status that HTTP does not have.
var errStatus = errors.New("the origin answered with an invalid status")

// An unsentError says that there was no connection for a request.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

// A noAnswerError says that an origin with a connection has not answered, or not by the rules of HTTP.
type noAnswerError struct{ error }

func (e noAnswerError) Unwrap() error { return e.error }

// explained returns the error of a request, with what it follows from whether there was a connection for it.
func explained(err error, connected bool) error {
	switch {
	case err == nil:
		return nil
	case connected && !errors.Is(err, context.Canceled):
		return noAnswerError{err}
	case !connected:
		switch loadsign.OfError(err) {
		case loadsign.Unreachable, loadsign.Silent: // for a handshake of TLS, too
			return unsentError{err}
		}
	}
	return err
}

// ask sends a request to the origin. It returns a panic of the transport, for the goroutine of the handler. Connected
// tells whether there was a connection, if the transport is the proxy's own.
func (o *originServer) ask(req *http.Request, connected *atomic.Bool) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a = answer{panicked: v}
		}
	}()
	if o.client != nil && brief(req) {
		a = answerOf(o.client.RoundTrip(req))
	} else {
		a = answerOf(o.transport.RoundTrip(req))
	}
	if o.own {
		a.err = explained(a.err, connected.Load())
	}
	return a
}

// brief reports whether package http1client can carry a request: it asks for no upgrade, has no body or
// one in memory, and the kernel takes all of it, even if the origin does not read it.
func brief(req *http.Request) bool {
	if len(req.Header["Upgrade"]) > 0 || req.Body != nil && req.GetBody == nil {
		return false
	}
	size := req.ContentLength + int64(len(req.URL.Path)+len(req.URL.RawQuery))
	for name, values := range req.Header {
		for _, value := range values {
			size += int64(len(name) + len(value))
		}
	}
	return size <= 16<<10
}

// answerOf returns an answer with a status that an http.ResponseWriter takes: net/http accepts also
// those below 100, and over HTTP/2 those above 999.
func answerOf(resp *http.Response, err error) answer {
	if err == nil && (resp.StatusCode < 100 || resp.StatusCode > 999) {
		_ = resp.Body.Close()
		return answer{err: fmt.Errorf("%w: %03d", errStatus, resp.StatusCode)}
	}
	return answer{resp: resp, err: err}
}

// resultOf returns what an answer says about the health of its origin, and the time of its
// Retry-After, if it has one with 503.
func resultOf(a answer, sign loadsign.Sign) (r balance.Result, after time.Duration) {
	switch {
	case a.panicked != nil, a.resp == nil && a.err == nil:
		return balance.Unknown, 0
	case a.err != nil && notSent(a.err):
		return balance.Unreachable, 0
	case a.err != nil && loadsign.OfError(a.err) == loadsign.Silent:
		return balance.Silent, 0
	case a.err != nil && brokenOff(a.err):
		return balance.Failed, 0
	case a.err != nil: // such as a request that the transport refuses to send
		return balance.Unknown, 0
	case sign == loadsign.Unavailable:
		after, _ = httpheader.RetryAfter(a.resp.Header, time.Now())
		return balance.Failed, after
	case sign == loadsign.GatewayLate, a.resp.StatusCode == http.StatusBadGateway, a.resp.StatusCode == http.StatusInternalServerError:
		return balance.Failed, 0
	}
	return balance.Answered, 0
}

// notSent reports whether an error says that there was no connection for the request.
func notSent(err error) bool {
	switch loadsign.OfError(err) {
	case loadsign.Refused, loadsign.Unreachable:
		return true
	}
	return unsent(err)
}

// unsent reports whether an error says for sure that nothing of the request was sent.
func unsent(err error) bool {
	if _, ok := errors.AsType[unsentError](err); ok {
		return true
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// brokenOff reports whether an error says that the origin closed the connection, or did not answer by the rules of HTTP.
func brokenOff(err error) bool {
	if _, ok := errors.AsType[noAnswerError](err); ok {
		return true
	}
	return errors.Is(err, errStatus) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// rereadable reports whether a request has no body, or one that can be read again.
func rereadable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// idempotent reports whether the method of a request says that it may be repeated.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// An OriginStats holds the state of an origin and its counts since New.
type OriginStats struct {
	URL      string
	State    balance.State
	Until    time.Time              // the next trial of an ejected origin, or the end of a hold; otherwise zero
	Cause    balance.Cause          // of an ejection
	Limit    int                    // the sum of its adaptive limits; 0: it has none of its own
	MinLimit int                    // the lower bound of Limit
	Inflight int                    // requests that it works on, long-lived ones included
	Retried  uint64                 // requests that went to another origin, because this one did not answer
	Ejected  [balance.Causes]uint64 // how often it was ejected, by cause
	Signs    [loadsign.Count]uint64 // of its answers, and missing ones
}

// stats returns the state of all origins.
func (s *origins) stats() []OriginStats {
	stats := make([]OriginStats, len(s.list))
	now := time.Since(s.epoch)
	s.mu.Lock()
	for i := range stats {
		o := s.set.Origin(now, i)
		stats[i].State, stats[i].Cause, stats[i].Inflight = o.State, o.Cause, o.Inflight
		if o.Until > 0 {
			stats[i].Until = s.epoch.Add(o.Until)
		}
	}
	s.mu.Unlock()
	for i, o := range s.list {
		stats[i].URL, stats[i].Retried = o.name, o.retried.Load()
		for cause := range o.ejected {
			stats[i].Ejected[cause] = o.ejected[cause].Load()
		}
		for sign := range o.signs {
			stats[i].Signs[sign] = o.signs[sign].Load()
		}
	}
	return stats
}
