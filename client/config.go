package client

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/httpheader"
)

// DefaultTimeout is Config.Timeout if that is zero.
const DefaultTimeout = 50 * time.Millisecond

// Away selects how a Client decides while the server is away.
type Away uint8

const (
	Deny  Away = iota + 1 // it denies every request
	Allow                 // it allows every request
	Local                 // it allows what its share of each limit allows: see Config.Instances
)

// Config sets up a Client. URL and Away are required, and Instances if Away is Local.
type Config struct {
	// URL is the address of weir serve, such as "http://127.0.0.1:8080". With http
	// the Client uses HTTP/2 in cleartext, with https HTTP/2 over TLS. A path is
	// prepended to the path of each request.
	URL string
	// Token, if not empty, is sent as a bearer token. Without TLS, everyone on the
	// network path can read it.
	Token string
	// HTTP sends the requests, for example with another TLS configuration. The Client
	// ignores its Timeout and does not follow redirects. It closes the idle connections
	// of HTTP when the server is away, and in Close. If nil, the Client has its own
	// connections.
	HTTP *http.Client

	// Timeout bounds the time until an answer, in addition to the wait that the
	// request asks for. After it, the request is decided as Away says. If zero,
	// DefaultTimeout.
	Timeout time.Duration
	// MaxWait bounds the wait of a call, at the server and locally together, even
	// if its context allows more. If zero, 30 seconds.
	MaxWait time.Duration
	// TTL is how long a lease lasts after its last renewal. If zero, the rule of
	// the server says.
	TTL time.Duration
	// Queue bounds the requests that are about to be sent, and the requests that
	// wait at the server. Beyond it, the former are decided as Away says, and the
	// latter are rejected with weir.QueueFull. If zero, 10,000.
	Queue int

	// Leaf, if not nil, makes the Client a leaf, which decides about rates by itself: see
	// LeafConfig.
	Leaf *LeafConfig

	// Away selects how the Client decides while the server does not answer, or answers
	// too late. A stall of a few Timeouts is enough. There is no default.
	Away Away
	// Instances is the greatest number of Clients that use these limits at the same time
	// (Local), such as the replicas of a service: at least 1. Each Client may use the
	// limit divided by Instances, rounded down, so that all of them together keep to the
	// limit. A limit below Instances allows nothing. What the server granted before counts
	// towards the share of the Client that got it, not of the others.
	//
	// Keys that share a bucket at the server (per: rule) get this share each, because the
	// server does not tell: for ten such keys, use ten times the number, or Deny.
	Instances int
	// LocalQuota is the quota of each key in this Client (Local) if the limit of the key
	// is not known: the Client asks for at most 100 limits a second and keeps 16,384, and
	// no limit is known if no rule matches the key. If zero, requests with such a key are
	// denied. gcra.Unlimited() allows them.
	LocalQuota gcra.Quota
	// OnAway, if not nil, is called with the reason when the Client considers the
	// server away, and with nil when it is back: once per change, not concurrently.
	// A change that is over before the previous call returns is skipped. OnAway must
	// not panic: it has its own goroutine, so that ends the process. Close waits for
	// it for at most a second.
	OnAway func(err error)
}

// validate returns an error that names the first field that makes no sense.
func (c Config) validate() error {
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
	case c.Away < Deny || c.Away > Local:
		return fmt.Errorf("client: Away = %d: must be Deny, Allow or Local: how to decide while the server is away", c.Away)
	case c.Instances < 0 || c.Away == Local && c.Instances == 0:
		return fmt.Errorf("client: Instances = %d: must be the number of Clients that use the same limits, at least 1", c.Instances)
	}
	if c.Leaf != nil {
		if err := c.Leaf.validate(c.LocalQuota); err != nil {
			return err
		}
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

// longest bounds durations, so that they can be added to each other.
const longest = time.Duration(math.MaxInt64 / 4)

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxWait = cmp.Or(c.MaxWait, 30*time.Second)
	c.Queue = cmp.Or(c.Queue, 10_000)
	c.Instances = max(c.Instances, 1)
	if c.Away == Allow {
		c.LocalQuota = gcra.Unlimited()
	}
	if c.OnAway == nil {
		c.OnAway = func(error) {}
	}
	return c
}

// newTransport returns the default transport.
func newTransport() *http.Transport {
	t := &http.Transport{
		Protocols:       new(http.Protocols),
		IdleConnTimeout: 90 * time.Second,
		// Pings detect a dead connection even while requests that wait at the
		// server keep it from being idle.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 3 * time.Second, PingTimeout: 2 * time.Second},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	t.Protocols.SetHTTP2(true)
	return t
}
