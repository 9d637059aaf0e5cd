package demo

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/origin"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A rig is an origin, a proxy and a client that run until close. There is always a
// proxy; in the mode Off, the client does not use it.
type rig struct {
	network network
	speed   speed
	client  Client
	meter   *meter
	origin  *origin.Origin
	proxy   *proxy.Proxy

	transport       http.RoundTripper
	direct, proxied string                 // addresses
	target          atomic.Pointer[string] // one of the two

	stop    context.CancelFunc // of the client
	done    chan struct{}      // closed when the client has ended
	servers []*http.Server
}

// A network connects the parts of a rig.
type network struct {
	listen func() (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

var loopback = network{
	listen: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
	dial:   new(net.Dialer).DialContext,
}

// transport returns a transport that shares no connections.
func (n network) transport() *http.Transport {
	return &http.Transport{DialContext: n.dial, MaxIdleConnsPerHost: originQueue, DisableCompression: true}
}

// newRig starts a rig that remembers the events of a number of ticks.
func newRig(n network, s speed, client Client, setup Setup, ticks int) (*rig, error) {
	r := &rig{
		network: n, speed: s, client: client, meter: newMeter(ticks, setup.Workers), done: make(chan struct{}),
		transport: n.transport(),
	}
	if err := r.build(setup); err != nil {
		r.closeServers()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		defer close(r.done)
		// The configuration is valid, and load has no other error.
		_, _ = load.Run(ctx, load.Config{
			Target:    "http://origin.invalid/", // RoundTrip replaces it
			Profile:   pace.Constant(client.Rate * float64(s)),
			Workers:   client.Workers,
			Timeout:   s.real(client.timeout()),
			Transport: r,
			Record:    r.meter.answered,
		})
	}()
	return r, nil
}

func (r *rig) build(setup Setup) (err error) {
	r.origin, err = origin.New(origin.Config{
		Workers: setup.Workers, ServiceTime: origin.ServiceTime{Mean: r.speed.real(setup.serviceTime())},
		Queue: originQueue, Observe: r.meter.served,
	})
	if err != nil {
		return err
	}
	if r.direct, err = r.listen(r.meter.watch(r.origin)); err != nil {
		return err
	}
	limit, err := setup.Proxy.limit()
	if err != nil {
		return err
	}
	r.proxy, err = proxy.New(proxy.Config{
		Origins: []string{"http://" + r.direct}, Limit: limit, Logger: slog.New(slog.DiscardHandler),
		Transport: r.network.transport(),
		MaxWait:   r.speed.real(maxWait), Timeout: r.speed.real(r.client.timeout() - margin), AbandonedHold: r.speed.real(abandonedHold),
	})
	if err != nil {
		return err
	}
	if r.proxied, err = r.listen(r.proxy); err != nil {
		return err
	}
	r.route(setup.Proxy)
	return nil
}

// listen serves h, and returns its address.
func (r *rig) listen(h http.Handler) (string, error) {
	ln, err := r.network.listen()
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	r.servers = append(r.servers, srv)
	go func() { _ = srv.Serve(ln) }() // until Close
	return ln.Addr().String(), nil
}

// change changes the setup of a running rig. On an error, nothing has changed.
func (r *rig) change(from, to Setup) error {
	limit, err := to.Proxy.limit()
	if err != nil {
		return err
	}
	serviceTime := settings.Duration(r.speed.real(to.serviceTime()))
	if err := r.origin.Set(origin.Change{Workers: &to.Workers, ServiceTime: &serviceTime}); err != nil {
		return err
	}
	r.meter.setWorkers(to.Workers)
	if to.Proxy != Off && to.Proxy != from.Proxy {
		if err := r.proxy.Set(proxy.Change{Limit: &limit}); err != nil {
			return fmt.Errorf("after the origin was changed: %w", err)
		}
	}
	r.route(to.Proxy)
	return nil
}

// route sends the requests of the client to the origin, directly or through the proxy.
func (r *rig) route(m Mode) {
	if m == Off {
		r.target.Store(&r.direct)
	} else {
		r.target.Store(&r.proxied)
	}
}

// RoundTrip sends a request of the client.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Host = *r.target.Load()
	req.Host = req.URL.Host
	return r.transport.RoundTrip(req)
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
