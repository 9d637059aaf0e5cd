package demo

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/lab/load"
	"github.com/weir-go/weir/service/internal/lab/origin"
	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/settings"
)

// A rig is an origin, a proxy and a client that run until close. There is always a
// proxy; in the mode Off, the client does not use it.
type rig struct {
	speed  speed
	origin *origin.Origin
	proxy  *proxy.Proxy
	route  router

	mu    sync.Mutex // guards setup, and one change at a time
	setup Setup

	stop    context.CancelFunc // of the client
	done    chan struct{}      // closed when the client has ended
	servers []*http.Server
}

// watcher is called for the events of a rig, by many goroutines.
type watcher interface {
	answered(trace.Record) // at the client
	served(origin.Done)    // at the origin
}

func newRig(s speed, setup Setup, w watcher) (*rig, error) {
	r := &rig{speed: s, done: make(chan struct{})}
	if err := r.build(setup, w); err != nil {
		r.closeServers()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.done)
		// The configuration is valid, and load has no other error.
		_, _ = load.Run(ctx, r.client(w))
	}()
	return r, nil
}

func (r *rig) build(setup Setup, w watcher) (err error) {
	r.origin, err = origin.New(origin.Config{
		Workers: setup.Workers, ServiceTime: origin.ServiceTime{Mean: r.speed.real(setup.ServiceTime)}, Queue: originQueue, Observe: w.served,
	})
	if err != nil {
		return err
	}
	originURL, err := r.listen(r.origin)
	if err != nil {
		return err
	}
	cfg, err := r.speed.proxyConfig(originURL.String(), setup.Proxy)
	if err != nil {
		return err
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	if r.proxy, err = proxy.New(cfg); err != nil {
		return err
	}
	proxyURL, err := r.listen(r.proxy)
	if err != nil {
		return err
	}
	r.route = newRouter(originURL, proxyURL)
	r.route.through(setup.Proxy != Off)
	r.setup = setup
	return nil
}

func (r *rig) client(w watcher) load.Config {
	return load.Config{
		Target:    "http://origin.invalid/", // the router knows better
		Profile:   pace.Constant(Rate * float64(r.speed)),
		Workers:   ClientWorkers,
		Timeout:   r.speed.real(ClientTimeout),
		Transport: r.route,
		Record:    w.answered,
	}
}

func (r *rig) listen(h http.Handler) (*url.URL, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	r.servers = append(r.servers, srv)
	go func() { _ = srv.Serve(ln) }() // until Close
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}, nil
}

// change changes the setup of a running rig. On an error, nothing has changed.
func (r *rig) change(to Setup) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lim *proxy.Limit
	if to.Proxy != Off && to.Proxy != r.setup.Proxy {
		l, err := to.Proxy.limit()
		if err != nil {
			return err
		}
		lim = &l
	}
	serviceTime := settings.Duration(r.speed.real(to.ServiceTime))
	if err := r.origin.Set(origin.Change{Workers: &to.Workers, ServiceTime: &serviceTime}); err != nil {
		return err
	}
	if lim != nil {
		if err := r.proxy.Set(proxy.Change{Limit: lim}); err != nil {
			return fmt.Errorf("after the origin was changed: %w", err)
		}
	}
	r.route.through(to.Proxy != Off)
	r.setup = to
	return nil
}

func (r *rig) current() Setup {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.setup
}

// close ends the client and the servers. Work in progress at the origin continues for
// a while.
func (r *rig) close() {
	r.stop()
	<-r.done
	r.closeServers()
}

func (r *rig) closeServers() {
	for _, srv := range r.servers {
		_ = srv.Close()
	}
}

// A router sends the requests of a client to the origin, directly or through the
// proxy. It can be switched at any time.
type router struct {
	inner  *http.Transport
	ways   [2]*url.URL // direct, proxied
	chosen *atomic.Int32
}

func newRouter(direct, proxied *url.URL) router {
	return router{
		inner:  &http.Transport{MaxIdleConnsPerHost: ClientWorkers},
		ways:   [2]*url.URL{direct, proxied},
		chosen: new(atomic.Int32),
	}
}

func (r router) through(proxy bool) {
	if proxy {
		r.chosen.Store(1)
	} else {
		r.chosen.Store(0)
	}
}

// RoundTrip sends the request the chosen way.
func (r router) RoundTrip(req *http.Request) (*http.Response, error) {
	way := r.ways[r.chosen.Load()]
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = way.Scheme, way.Host
	req.Host = way.Host
	return r.inner.RoundTrip(req)
}
