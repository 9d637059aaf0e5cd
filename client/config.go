package client

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/httpheader"
)

// Defaults where Config leaves things open.
const (
	DefaultTimeout = 50 * time.Millisecond
	DefaultMaxWait = 30 * time.Second
	DefaultQueue   = 10_000
)

// Away says who decides while the server cannot be asked.
type Away uint8

const (
	Local Away = iota // a limiter of the Client's own, with its Share of each limit
	Allow             // nobody: everything goes on
	Deny              // nobody: nothing goes on
)

// Config is what a Client is made of. Only URL is required.
type Config struct {
	// URL is where weir serve listens, such as "http://127.0.0.1:8080". With http
	// the Client speaks HTTP/2 in cleartext, with https HTTP/2 over TLS. A path is
	// put before those of the requests.
	URL string
	// Token, if not empty, is sent as a bearer token. In cleartext everybody on
	// the way can read it.
	Token string
	// TLS is the configuration for https. If nil, the default of crypto/tls.
	TLS *tls.Config
	// HTTP sends the requests, but follows no redirects, and its Timeout does not
	// count. Its idle connections are closed when the server is away, and by Close.
	// If nil, a client of the Client's own, with connections of its own.
	HTTP *http.Client

	// Timeout is how long an answer may take, on top of a wait that was asked for.
	// After that the request is decided as Away says. If zero, DefaultTimeout.
	Timeout time.Duration
	// MaxWait bounds what a call waits, here and there together, also where the
	// context would allow more. If zero, DefaultMaxWait.
	MaxWait time.Duration
	// TTL is how long a lease lasts after its holder was last heard of. If zero,
	// the server's rule says.
	TTL time.Duration
	// Queue bounds the requests that are about to be sent, and those that wait at
	// the server. Beyond it, the former are decided as Away says, and the latter
	// are refused with weir.QueueFull. If zero, DefaultQueue.
	Queue int

	// Away says who decides while the server does not answer, or too late.
	Away Away
	// Share is the part of each limit that this Client has for its own while the
	// server is away (Local): of four replicas alike, a quarter. If zero, 1. Each key
	// has its own, also those that have one bucket together at the server (per: rule),
	// as it does not say so: if ten of them are in use, take a tenth of that, or Deny.
	Share float64
	// LocalQuota is what each key may have while the server is away (Local), if it
	// is not known what the server would allow. If zero, everything.
	LocalQuota gcra.Quota
	// OnAway, if not nil, is called with the reason when the server is taken to be
	// away, and with nil when it is back: once for each change that lasts until the
	// call before has returned, and never twice at a time. It must not call Close.
	OnAway func(err error)
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return fmt.Errorf("client: URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("client: URL = %q: must be http:// or https://, a host, and at most a path", u.Redacted())
	case !httpheader.ValidValue(c.Token):
		return fmt.Errorf("client: Token: must be the value of a header")
	case c.Queue < 0:
		return fmt.Errorf("client: Queue = %d: must be >= 0", c.Queue)
	case c.Away > Deny:
		return fmt.Errorf("client: Away = %d: must be Local, Allow or Deny", c.Away)
	case !(c.Share >= 0 && c.Share <= 1): // NaN is neither
		return fmt.Errorf("client: Share = %v: must be from 0 to 1", c.Share)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"MaxWait", c.MaxWait}, {"TTL", c.TTL}} {
		if d.value < 0 || d.value > longest {
			return fmt.Errorf("client: %s = %v: must be from 0 to %v", d.name, d.value, longest)
		}
	}
	return nil
}

// longest is a time that can be added to another.
const longest = time.Duration(math.MaxInt64 / 4)

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxWait = cmp.Or(c.MaxWait, DefaultMaxWait)
	c.Queue = cmp.Or(c.Queue, DefaultQueue)
	c.Share = cmp.Or(c.Share, 1)
	return c
}

// transport returns what sends the requests of a Client that was given none.
func (c Config) transport() *http.Transport {
	t := &http.Transport{
		Protocols:       new(http.Protocols),
		TLSClientConfig: c.TLS,
		IdleConnTimeout: 90 * time.Second,
		// A connection whose other end is gone without a word is found out by this,
		// although requests that wait at the server keep it from being idle.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 3 * time.Second, PingTimeout: 2 * time.Second},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	t.Protocols.SetHTTP2(true)
	return t
}
