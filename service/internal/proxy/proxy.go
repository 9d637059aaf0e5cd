// Package proxy is a reverse proxy that protects an origin from overload. It limits
// the requests in flight to what the origin can bear. Further requests wait briefly
// in a bounded queue, or get 503 at once, without touching the origin.
//
// # The life of a request
//
// Receive a small body → acquire a permit (or refuse) → carry the request to the
// origin → release the permit when the origin has sent its answer → copy the
// answer.
//
// # Abandoned work still counts
//
// Most origins go on working after a client has left. So the proxy keeps the permit,
// and waits for the origin's answer, for up to Config.AbandonedHold. It does the
// same after the Timeout of an origin.
//
// # Long-lived exchanges
//
// The limit learns durations up to the header of an answer. An exchange that lasts
// longer than ordinary work (twice the 99th percentile of successes) leaves the
// limit, and is counted as long-lived, up to Config.LongLived. That concerns slow
// bodies of answers and requests, and stuck requests, after which many later ones
// were served. Upgraded connections and event streams leave at once.
//
// The addresses of clients share these places: one may have as many as are free. An
// exchange without a place keeps its unit. While the limit is reached, it is ended,
// unless it is stuck: its client alone decides how long it takes.
package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/internal/problem"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/blackbox"
	"github.com/weir-go/weir/service/internal/logqueue"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/condition"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// Defaults of Config.
const (
	DefaultTimeout       = 30 * time.Second
	DefaultAbandonedHold = 30 * time.Second
	DefaultClientTimeout = 30 * time.Second
	DefaultLongLived     = 2000
	// DefaultHealthInterval is the time between two health checks of an origin.
	DefaultHealthInterval = 5 * time.Second
)

// ReasonHeader is a header of the proxy's own answers, which says why the origin did
// not answer.
const ReasonHeader = problem.ReasonHeader

// Config configures a Proxy. Only Origins is required.
type Config struct {
	// Origins are the absolute URLs that requests go to, each to one of them: http, https
	// (HTTP/2 if the origin speaks it), h2c (HTTP/2 without TLS), or unix with the path of a socket
	// (HTTP/1.1). The path of other URLs is a prefix of each request's path. See package balance for the
	// choice. Of several, each has its own adaptive limit; a number is a limit of all together.
	Origins []string
	// OriginTLS configures TLS to the origins. If nil, the certificates of the system count.
	OriginTLS *tls.Config
	// Limit bounds the requests in flight. The zero Limit is automatic.
	Limit Limit
	// Auto configures the automatic limit.
	Auto limit.Config
	// SlowStart is the Idle time of a slow start (limit.NewSlowStart): after one to two times
	// this time without use, the limit begins at a tenth, as at first. If zero, it does not.
	SlowStart time.Duration
	// MaxPressure is the share of the time in which work may wait for the processor, below 1
	// (package pressure). Above it, a part of the requests is rejected. If zero, none is.
	MaxPressure float64
	// PressureFile has the pressure. If empty, that of the process's cgroup or the machine.
	PressureFile string
	// HealthPath is the path of health checks of origins, such as "/healthz". If empty, there are none.
	HealthPath string
	// HealthInterval is the time between two health checks of an origin. If zero, DefaultHealthInterval.
	HealthInterval time.Duration
	// Queue bounds the number of waiting requests. If zero,
	// inflight.DefaultQueue; if negative, none waits.
	Queue int
	// MaxWait bounds the time in the queue. If zero, inflight.DefaultMaxWait;
	// if negative, only the client's patience does.
	MaxWait time.Duration
	// Timeout bounds the wait for the header of the origin's answer, or until the
	// origin reads more of the request. Afterwards the client gets 504, and the
	// limit a sign of overload. If zero, DefaultTimeout; if negative, unbounded.
	// It should be a little below the time-out of the clients.
	Timeout time.Duration
	// AbandonedHold bounds how long the request to the origin goes on, and its permit is
	// kept, after the client has left. If zero, DefaultAbandonedHold; if negative, the
	// origin's connection is closed and the permit released at once.
	AbandonedHold time.Duration
	// ClientTimeout bounds the wait until a client sends more of its body, which
	// must also keep up MinBodyRate, or reads more of the answer (see Listener), by a
	// 32nd more. While the origin answers, the rest of a body may take any time. If zero,
	// DefaultClientTimeout; if negative, unbounded.
	ClientTimeout time.Duration
	// MaxBody bounds the body of a request, in bytes. A larger one gets 413. The rules of a
	// class may say otherwise. If zero, it is not bounded.
	MaxBody int64
	// Trust says which proxies in front of this one are trusted. The RemoteAddr of their
	// requests becomes the address of the client, with port 0.
	Trust clients.Trust
	// LongLived bounds the exchanges that have left the limit. The addresses of
	// clients share it: one may have as many as are free, so at most half. The other
	// exchanges stay in flight, and end while the limit is reached. If zero,
	// DefaultLongLived; if negative, none leaves the limit, and none is ended. Exchanges whose origin
	// is out leave it without a place.
	LongLived int
	// LoadRules returns the rules (package proxyrule). New and Reload call it. If nil,
	// there are none. RulesPath names their file in reports.
	LoadRules func() (*proxyrule.Rules, error)
	RulesPath string
	// Shadow decides and counts, but rejects no request, lets none wait, and answers none
	// from a cache, whatever the rules say.
	Shadow bool
	// Transport sends requests to the origins. If nil, one with enough keep-alive
	// connections for any limit, and package http1client for brief requests to http
	// origins. It must be safe for concurrent use.
	Transport http.RoundTripper
	// Dial opens connections to the origins. If nil, a net.Dialer does, within 5 s. It must be
	// safe for concurrent use, and fail after a while. What comes on an idle connection is only
	// seen if that is a syscall.Conn.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets changes of the state, never a line per request. If nil,
	// slog.Default().
	Logger *slog.Logger
	// Box gets a record of each request that asks for a place at an origin, or is rejected before, and
	// the changes of the condition. If nil, nothing is recorded.
	Box *blackbox.Box
	// TraceID returns the ID of the trace of a request, or "" if that is not sampled. The traces become exemplars
	// of histograms, for scrapes in the format OpenMetrics. If nil, there are none.
	TraceID func(r *http.Request) string
	// Collectors are of further metrics of the process, for /metrics.
	Collectors []prometheus.Collector
}

// A Proxy is an http.Handler that limits what it lets through. It is safe for
// concurrent use.
type Proxy struct {
	cfg     Config
	epoch   time.Time // instants are durations since then
	trust   clients.Trust
	origins *origins.Set
	metrics *metrics
	log     *slog.Logger

	plan atomic.Pointer[plan.Plan]
	all  *tally.Counts // of all classes

	mu            sync.Mutex            // guards the fields below, the settings of limiters, and changes of plan
	retired       []*limits.Limiter     // of earlier plans, with requests
	decidingPlans []*plan.Plan          // earlier ones with requests about which their rules still decide
	ruleCounts    map[string]ruleCounts // of earlier plans
	reloads       reloads

	forwarder *forward.Forwarder

	watch *condition.Watcher

	draining    atomic.Bool
	connections *clients.Connections // of clients, accepted by Listener
}

// New returns a Proxy, or an error that names the first invalid field of the Config.
func New(cfg Config) (*Proxy, error) {
	// Also if the limit is fixed, because Set can make it automatic.
	if _, err := limit.NewAuto(cfg.Auto); err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.AbandonedHold = max(cmp.Or(cfg.AbandonedHold, DefaultAbandonedHold), 0)
	cfg.ClientTimeout = cmp.Or(cfg.ClientTimeout, DefaultClientTimeout)
	cfg.HealthInterval = cmp.Or(cfg.HealthInterval, DefaultHealthInterval)
	switch {
	case cfg.HealthPath != "" && !proxyrule.ValidHealthPath(cfg.HealthPath):
		return nil, fmt.Errorf("proxy: HealthPath = %q: must be a path that begins with /", cfg.HealthPath)
	case cfg.HealthInterval < proxyrule.MinHealthInterval:
		return nil, fmt.Errorf("proxy: HealthInterval = %v: must be at least %v", cfg.HealthInterval, proxyrule.MinHealthInterval)
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	p := &Proxy{
		cfg: cfg, epoch: time.Now(), trust: cfg.Trust.Canonical(), connections: clients.NewConnections(cfg.ClientTimeout), log: cmp.Or(cfg.Logger, slog.Default()), metrics: newMetrics(), all: tally.New(nil),
		ruleCounts: map[string]ruleCounts{},
	}
	p.watch = condition.New(p.snapshot, p.log)
	p.reloads.log = logqueue.NewLatest(p.log)
	var err error
	if p.origins, err = origins.New(origins.Config{
		URLs: cfg.Origins, TLS: cfg.OriginTLS, Transport: cfg.Transport, Dial: cfg.Dial, Epoch: p.epoch, Log: p.log,
	}); err != nil {
		return nil, err
	}
	p.forwarder = forward.New(forward.Config{
		Origins: p.origins, Trust: p.trust, AbandonedHold: cfg.AbandonedHold, ClientTimeout: cfg.ClientTimeout,
		LongLived: cmp.Or(cfg.LongLived, DefaultLongLived), Epoch: p.epoch, Log: p.log, Observer: observer{p.metrics, p.watch}, Recorder: cfg.Box.Recorder(), TraceID: cfg.TraceID,
	})
	if _, err := p.load(); err != nil {
		return nil, err
	}
	p.metrics.registerCollectors(p)
	for _, c := range cfg.Collectors {
		if err := p.metrics.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// ServeHTTP sends the request to the origin, or refuses it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect { // a tunnel to anywhere is not what this proxy is for
		http.Error(w, "CONNECT is not served here: this is a reverse proxy", http.StatusMethodNotAllowed)
		return
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" { // those of the server itself, which net/http answers so
		w.Header().Set("Content-Length", "0")
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
		}
		return
	}
	var q forward.Request
	r = p.trust.Identify(r, &q.Client)
	if r.ProtoMajor == 2 {
		stream := clients.NewStreamWriter(w, p.cfg.ClientTimeout)
		defer stream.Finish()
		w = stream
	}
	pl := p.plan.Load()
	if pl.Ruled || len(pl.Classes) > 1 {
		p.ruled(w, r, &q.Client)
		return
	}
	pl.Other.Counts.CountRequest()
	if !pl.Other.BoundBody(w, r) {
		forward.RefuseTooLarge(w, r, pl.Other.Counts)
		return
	}
	q.Class, q.Route = &pl.Other.Class, pl.Other.RouteOf(r, "")
	p.limited(w, r, pl.Other, &q)
}

// Listener bounds the time of each write by Config.ClientTimeout, and a 32nd of it, so that a
// client that does not read does not hold a permit. It also saves most of the deadlines that
// net/http sets for each request.
//
// It replaces http.Server's WriteTimeout, which bounds a whole response and so
// cuts off long streams.
func (p *Proxy) Listener(ln net.Listener) net.Listener { return p.connections.Listener(ln) }

// ConnContext is the ConnContext hook of an http.Server of Listener. It lets clients of HTTP/1 get the reason
// phrases of the origin, which net/http replaces, and send the rest of a request that was answered early.
func (p *Proxy) ConnContext(ctx context.Context, nc net.Conn) context.Context {
	return clients.ConnContext(ctx, nc)
}

// Work returns the counts of exchanges until now.
func (p *Proxy) Work() forward.Work { return p.forwarder.Work() }

// UseOriginTLS replaces Config.OriginTLS. Requests in flight keep their connections.
func (p *Proxy) UseOriginTLS(cfg *tls.Config) { p.origins.UseTLS(cfg) }

// CheckOrigins checks the health of the origins until ctx ends, if there is a path for that.
func (p *Proxy) CheckOrigins(ctx context.Context) {
	p.origins.CheckHealth(ctx, func() origins.Health { return p.plan.Load().Health })
}

// Drain makes /-/ready answer 503, and returns how many connections of clients are open.
// The proxy goes on serving requests.
func (p *Proxy) Drain() (connections int) {
	p.draining.Store(true)
	return p.connections.Count()
}

// Draining reports whether Drain was called.
func (p *Proxy) Draining() bool { return p.draining.Load() }

// Shadow reports whether the whole proxy is in shadow mode: by the Config, or by the file of rules.
func (p *Proxy) Shadow() bool { return p.plan.Load().Shadow }

// Idle reports whether no request waits, and no exchange is in progress, long-lived
// ones included.
func (p *Proxy) Idle() bool { return p.forwarder.Stats().Serving == 0 && p.Stats().Waiting == 0 }
