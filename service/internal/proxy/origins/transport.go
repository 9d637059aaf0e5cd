package origins

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/net/idna"

	"github.com/weir-go/weir/service/internal/http1client"
)

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
