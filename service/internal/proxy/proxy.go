// Package proxy is a reverse proxy that keeps an origin's work in flight at
// what the origin can bear. Requests beyond the limit wait briefly in a
// bounded queue or are refused at once with 503, without touching the origin.
//
// # The life of a request
//
// Receive a small body → acquire a permit (or refuse) → carry the request to the
// origin → release the permit when the origin has sent its answer → copy the
// answer.
//
// # Abandoned work still counts
//
// A client that gives up does not free the origin, which in most services goes
// on working. So its permit is kept, and the origin's answer awaited, for up to
// Config.AbandonedHold. The same holds for an origin that is over its Timeout.
//
// # Long-lived exchanges
//
// What the limit learns ends with the header of an answer. An exchange that goes
// on for longer than ordinary work takes (twice the 99th percentile of successes)
// leaves the limit, and is counted among the long-lived ones, up to
// Config.LongLived: an upgraded connection and an event stream at once; a body
// that takes long to send or to take; a request that its client sends slowly; and a
// request that is stuck, as many that came later have been served.
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/limit"
)

// Bounds where Config leaves them open.
const (
	DefaultTimeout       = 30 * time.Second
	DefaultAbandonedHold = 30 * time.Second
	DefaultClientTimeout = 30 * time.Second
)

// Config sets up a Proxy. Only Origin is required.
type Config struct {
	// Origin is where requests go: an absolute http or https URL. Its path is
	// put before that of each request.
	Origin string
	// Limit is how much may be in flight. The zero Limit finds itself.
	Limit Limit
	// Auto sets up the limit that finds itself.
	Auto limit.Config
	// Queue bounds the number of waiting requests. If zero,
	// inflight.DefaultQueue; if negative, none waits.
	Queue int
	// MaxWait bounds the time in the queue. If zero, inflight.DefaultMaxWait;
	// if negative, only the client's patience does.
	MaxWait time.Duration
	// Timeout bounds how long the origin may keep the proxy waiting: for the
	// header of its answer, or to take more of the request. Beyond it the
	// client is told 504, and it counts as a sign of overload. If zero,
	// DefaultTimeout; if negative, unbounded.
	//
	// Set it a little below your clients' own time-out.
	Timeout time.Duration
	// AbandonedHold bounds how long a permit is kept for work that nobody
	// waits for any more. If zero, DefaultAbandonedHold; if negative, the
	// origin's connection is closed and the permit released at once.
	AbandonedHold time.Duration
	// ClientTimeout bounds how long a client may keep the proxy waiting: for
	// more of its body, which must also keep up MinBodyRate, or to take more of
	// the answer (see Listener). If zero, DefaultClientTimeout; if negative,
	// unbounded.
	ClientTimeout time.Duration
	// LongLived bounds the exchanges that go on without being counted as in flight.
	// Beyond it, they stay in flight until they end. If zero, DefaultLongLived; if
	// negative, none.
	LongLived int
	// Transport carries requests to the origin. If nil, one with keep-alive
	// connections enough for any limit. It must be safe for concurrent use.
	Transport http.RoundTripper
	// Trace, if not nil, is told of every change of the limit. See
	// inflight.Config.
	Trace func(inflight.Event)
	// Logger gets what an operator wants to know; never a line per request. If
	// nil, slog.Default().
	Logger *slog.Logger
}

// Validate says which field is wrong, or returns nil.
func (c Config) Validate() error {
	u, err := url.Parse(c.Origin)
	switch {
	case err != nil:
		return fmt.Errorf("proxy: Origin = %q: %w", c.Origin, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("proxy: Origin = %q: must be an absolute http or https URL", c.Origin)
	}
	_, err = limit.NewAuto(c.Auto)
	return err
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d == 0 {
		return byDefault
	}
	return d
}

// A Proxy is an http.Handler that limits what it lets through. It is safe for
// concurrent use.
type Proxy struct {
	cfg     Config
	limiter *inflight.Limiter
	reverse *httputil.ReverseProxy
	metrics *metrics
	log     *slog.Logger

	mu    sync.Mutex // guards limit, and one Set at a time
	limit Limit      // as set

	epoch   time.Time
	long    longlived.Class
	usual   usualTime
	served  atomic.Uint64 // requests answered well
	serving atomic.Int64  // exchanges with a handler that runs
	holding atomic.Int64  // exchanges that hold a unit
	bodies  atomic.Int64  // bytes of bodies that are received first
	signs   [loadsign.Count]atomic.Uint64

	watch watch

	draining    atomic.Bool
	abandoned   atomic.Int64 // permits held for work that nobody waits for
	connections atomic.Int64 // of clients, if they come by Listener
}

// New returns a Proxy, or the error of cfg.Validate.
func New(cfg Config) (*Proxy, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	origin, err := url.Parse(cfg.Origin)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = orDefault(cfg.Timeout, DefaultTimeout)
	cfg.AbandonedHold = max(orDefault(cfg.AbandonedHold, DefaultAbandonedHold), 0)
	cfg.ClientTimeout = orDefault(cfg.ClientTimeout, DefaultClientTimeout)
	p := &Proxy{cfg: cfg, limit: cfg.Limit, log: cfg.Logger, metrics: newMetrics(), epoch: time.Now()}
	p.long.SetMost(cfg.LongLived)
	if p.log == nil {
		p.log = slog.Default()
	}
	alg, err := cfg.Limit.algorithm(cfg.Auto)
	if err != nil {
		return nil, err
	}
	p.limiter, err = inflight.New(inflight.Config{
		Algorithm: alg, Queue: cfg.Queue, MaxWait: cfg.MaxWait, Trace: p.limitChanged,
	})
	if err != nil {
		return nil, err
	}
	inner := cfg.Transport
	if inner == nil {
		inner = defaultTransport()
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(origin)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:    carrier{p, inner},
		ErrorHandler: p.fail,
		BufferPool:   &bufferPool{},
		ErrorLog:     slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	p.metrics.watch(p)
	return p, nil
}

// defaultTransport differs from http.DefaultTransport in what matters to a
// proxy of one origin: idle connections for all of the limit instead of two,
// no proxy in between, and bodies passed on as they are.
func defaultTransport() http.RoundTripper {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		MaxIdleConnsPerHost:   4096,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}
}

// ServeHTTP lets the request through to the origin, or refuses it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := p.receive(w, r)
	defer p.bodies.Add(-int64(len(body)))
	if err != nil {
		notReceived(w, r, err)
		return
	}
	arrived := time.Now()
	permit, err := p.limiter.Acquire(r.Context(), 1)
	if err != nil {
		reject(w, r, err)
		return
	}
	x := p.begin(w, body, permit)
	defer x.finish()
	p.metrics.wait.Observe(time.Since(arrived).Seconds())
	p.reverse.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	x.whole = true
}

// Stats is what the proxy is doing and has done.
type Stats struct {
	inflight.Stats
	Mode        Limit // as set
	Abandoned   int   // permits held for work that nobody waits for; part of Inflight, unless they are long-lived
	LongLived   int   // exchanges that go on without being in flight
	Connections int   // of clients, if they come by Listener
}

// Stats returns the state and the counts since New.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	mode := p.limit
	p.mu.Unlock()
	return Stats{
		Stats: p.limiter.Stats(), Mode: mode,
		Abandoned: int(p.abandoned.Load()), LongLived: p.long.Now(), Connections: int(p.connections.Load()),
	}
}

func (p *Proxy) limitChanged(e inflight.Event) {
	p.metrics.limitChanges.WithLabelValues(e.Cause.String()).Inc()
	p.log.Debug("limit changed", "was", e.Was, "limit", e.Limit, "cause", e.Cause.String(),
		"inflight", e.Inflight, "waiting", e.Waiting, "evidence", e.Evidence)
	if p.cfg.Trace != nil {
		p.cfg.Trace(e)
	}
}

// bufferSize is how much of a body is read at a time.
const bufferSize = 32 << 10

// bufferPool lends the buffers that bodies are copied through.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return make([]byte, bufferSize)
}

func (b *bufferPool) Put(buf []byte) { b.pool.Put(&buf) }
