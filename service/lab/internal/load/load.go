// Package load sends requests to a service at a given rate, and measures the answers.
// The scheme of the target is the protocol: HTTP, Envoy's rate limit service over gRPC,
// the Redis protocol, or lines over TCP or UDP.
//
// The open loop sends each request when it is due, regardless of earlier ones, and
// measures latency from that instant. So a stall of the service does not hide the
// requests that it delays (coordinated omission). The closed loop has a number of
// workers, each of which waits for an answer before its next request. It shows the
// latency of such clients, not that of independent users. Without a Profile, workers send
// as fast as the answers come.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// Defaults of Config.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxInflight = 10_000
)

// Config configures the requests, their times, and the length of the run.
type Config struct {
	// Target is a URL. {n} in its path or query, and in Body, is replaced by the number of
	// the request, from 1.
	//
	//	http://HOST/PATH, https:              an HTTP request
	//	grpc://HOST:PORT/DOMAIN?KEY=VALUE&…,
	//	grpcs:                                ShouldRateLimit with one descriptor: its entries
	//	                                      are the fields of the query in their order
	//	redis://:SECRET@HOST:PORT, rediss:    the command in Body; the secret can be left out
	//	tcp://HOST:PORT, udp:                 Body as a line, recorded as trace.Sent
	Target string
	Method string      // of HTTP requests; if empty, GET, or POST if there is a Body
	Header http.Header // of HTTP requests; the metadata of gRPC
	Body   string      // of all but gRPC
	// Targets are the HTTP requests to send, in turn, instead of one. Their URLs are
	// relative to Target, which can be empty if they are absolute. Method, Header and Body
	// count where a target has none.
	Targets []Target

	Profile pace.Profile // offered rate over time; if it offers nothing, Workers do not pause
	Poisson bool         // arrivals are independent of each other instead of evenly spaced
	Seed    uint64       // of Poisson

	// Workers is the number of clients of a closed loop, which share the Profile.
	// Arrivals while all are busy are skipped. If zero, the loop is open.
	Workers int
	// Timeout bounds the wait for a whole answer. If zero, DefaultTimeout.
	Timeout time.Duration
	// Duration ends the arrivals. If zero, they end with ctx, or after Requests.
	Duration time.Duration
	// Requests bounds the number of requests. If zero, it is unbounded.
	Requests int
	// MaxInflight bounds the requests in flight of an open loop. Further ones are
	// not sent, and recorded as trace.Unsent. If zero, DefaultMaxInflight.
	MaxInflight int

	// Record is called for every request that has ended, by one goroutine at a time.
	Record func(trace.Record)
	// OnFailure, if not nil, is called with the error of the first request that ends as
	// trace.Failed, Untrusted, Unresolved or Exhausted. These reasons do not tell all.
	OnFailure func(error)
	// HTTP2 sends HTTP requests over HTTP/2 only: negotiated for https, with prior
	// knowledge for http (h2c).
	HTTP2 bool
	// NoKeepAlive makes a connection for each HTTP request.
	NoKeepAlive bool
	// Counters, if not nil, counts what is sent while it is sent.
	Counters *Counters

	// Transport sends the HTTP requests. If nil, it is one with enough keep-alive
	// connections and no proxy. Redirects are not followed.
	Transport http.RoundTripper
	// Dial connects to the target. If nil, a net.Dialer does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// TLS is the configuration for https, grpcs and rediss. If nil, certificates of the
	// system's authorities count.
	TLS *tls.Config
}

// Validate returns an error about the first field that is not valid, or nil.
func (c Config) Validate() error {
	switch {
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("load: workers = %d: must be in [0, %d]", c.Workers, maxWorkers)
	case c.Timeout < 0:
		return fmt.Errorf("load: timeout = %v: must be >= 0", c.Timeout)
	case c.Duration < 0:
		return fmt.Errorf("load: duration = %v: must be >= 0", c.Duration)
	case c.MaxInflight < 0:
		return fmt.Errorf("load: max_inflight = %d: must be >= 0", c.MaxInflight)
	case c.Requests < 0:
		return fmt.Errorf("load: requests = %d: must be >= 0", c.Requests)
	}
	if err := c.Profile.Validate(); err != nil {
		return err
	}
	if c.Workers == 0 && !c.Profile.Offers() {
		return errors.New("load: rate = 0: sends nothing: without workers, it must be > 0")
	}
	client, err := c.open(context.Background())
	if err != nil {
		return err
	}
	client.close()
	return nil
}

const maxWorkers = 100_000

// Run sends the requests, waits for the answers, and returns how long it sent. If ctx
// ends, requests in flight are recorded as trace.Canceled; that is not an error.
func Run(ctx context.Context, cfg Config) (offered time.Duration, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	r, err := newRunner(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer r.client.close()
	if cfg.Profile.Offers() {
		r.send()
	} else {
		r.sendUnpaced()
	}
	if cfg.Workers > 0 {
		r.requests.Wait()
	}
	if offered = r.now(); cfg.Workers == 0 && r.until > 0 {
		offered = r.until
	}
	if cfg.Duration > 0 {
		offered = min(offered, cfg.Duration)
	}
	r.requests.Wait()
	return offered, nil
}
