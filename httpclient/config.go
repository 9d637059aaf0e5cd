package httpclient

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/throttle"
)

// Defaults where Config leaves things open.
const (
	DefaultMaxHosts   = 1000
	DefaultMaxWait    = 30 * time.Second
	DefaultMaxHold    = time.Minute
	DefaultQueue      = 1000
	DefaultAttempts   = 3
	DefaultBackoff    = 100 * time.Millisecond
	DefaultMaxBackoff = 10 * time.Second
	DefaultLogEvery   = time.Minute
)

// Config is what a Transport is made of. The zero value is usable: it
// heeds what servers ask for, retries a tenth of the requests and one a second
// besides, and sends less to a host that refuses most. It limits no concurrency.
//
// The functions are called by several goroutines at once.
type Config struct {
	// Base sends the requests. If nil, http.DefaultTransport.
	Base http.RoundTripper
	// Key, if not nil, returns what tells apart the quotas that requests to one
	// host use: such as the account, where a process acts for several, or the
	// path, where each has a quota of its own. Requests with different keys share
	// nothing. If nil, all to a host (scheme, name and
	// port) share everything.
	Key func(r *http.Request) string
	// MaxHosts bounds the hosts, and keys, of which something is remembered: see
	// Transport. If zero, DefaultMaxHosts.
	MaxHosts int

	// NoPace turns off pacing by RateLimit and Retry-After. Retries wait for
	// Retry-After all the same.
	NoPace bool
	// MaxWait bounds each wait that a server asks for: beyond it a request fails
	// at once. If zero, DefaultMaxWait; if negative, the request's context alone
	// bounds it.
	MaxWait time.Duration
	// MaxHold bounds for how long a server is believed: after it, it is asked
	// again, by one request. If zero, DefaultMaxHold.
	MaxHold time.Duration
	// Queue bounds the requests to a host that wait. If zero, DefaultQueue; if
	// negative, none waits.
	Queue int

	// Attempts bounds those for one request, the first included. If zero,
	// DefaultAttempts; 1 turns retries off.
	Attempts int
	// Backoff is the longest wait before the first retry, doubled for each
	// further one, beside what Retry-After asks for. If zero, DefaultBackoff; if
	// negative, none.
	Backoff time.Duration
	// MaxBackoff bounds the doubling. If zero, DefaultMaxBackoff; if negative,
	// there is no backoff.
	MaxBackoff time.Duration
	// Budget bounds the retries to a host: a tenth of its requests, and one a
	// second besides.
	Budget throttle.BudgetConfig

	// NoAdaptive turns off the adaptive throttle.
	NoAdaptive bool
	// Adaptive sets it up.
	Adaptive throttle.AdaptiveConfig

	// PerHost, if not nil, returns the limiter of a host, such as
	// "https://example.com", when its first request comes, and that of each key
	// of it: once, until the host is forgotten; nil is no limit. Auto is one that finds the limit by itself. If
	// PerHost is nil, there is none: a limit refuses what it cannot hold, and not
	// every caller expects that.
	PerHost func(host string) weir.Limiter

	// Deadline names the request header that tells the server how long the
	// request's context has left, in whole milliseconds. If empty, none.
	Deadline string
	// Criticality names the request header that tells the server the Priority in
	// the request's context: "sheddable", "sheddable_plus", "critical" or
	// "critical_plus". If empty, none.
	Criticality string

	// Log, if not nil, gets a line when requests to a host are held or refused,
	// at once, and again with what came to pass since, once every LogEvery.
	Log *slog.Logger
	// LogEvery is the least time between lines about one host. If zero,
	// DefaultLogEvery.
	LogEvery time.Duration
}

// reserved are headers of a request that net/http sets itself, or takes out.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection"}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.MaxHosts < 0:
		return fmt.Errorf("httpclient: MaxHosts = %d: must be >= 0", c.MaxHosts)
	case c.MaxHold < 0:
		return fmt.Errorf("httpclient: MaxHold = %v: must be >= 0", c.MaxHold)
	case c.Attempts < 0:
		return fmt.Errorf("httpclient: Attempts = %d: must be >= 0", c.Attempts)
	case c.LogEvery < 0:
		return fmt.Errorf("httpclient: LogEvery = %v: must be >= 0", c.LogEvery)
	}
	for _, h := range []struct{ field, name string }{{"Deadline", c.Deadline}, {"Criticality", c.Criticality}} {
		switch name := http.CanonicalHeaderKey(h.name); {
		case h.name != "" && !httpheader.ValidName(h.name):
			return fmt.Errorf("httpclient: %s = %q: must be the name of a header", h.field, h.name)
		case slices.Contains(reserved, name):
			return fmt.Errorf("httpclient: %s = %q: net/http sets that header itself", h.field, h.name)
		}
	}
	if c.Criticality != "" && strings.EqualFold(c.Criticality, c.Deadline) {
		return fmt.Errorf("httpclient: Criticality = %q: must not be that of Deadline", c.Criticality)
	}
	if err := c.Budget.Validate(); err != nil {
		return fmt.Errorf("httpclient: Budget: %w", err)
	}
	if err := c.Adaptive.Validate(); err != nil {
		return fmt.Errorf("httpclient: Adaptive: %w", err)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	c.MaxHosts = cmp.Or(c.MaxHosts, DefaultMaxHosts)
	c.MaxWait = cmp.Or(c.MaxWait, DefaultMaxWait)
	c.MaxHold = min(cmp.Or(c.MaxHold, DefaultMaxHold), forever)
	c.Queue = max(cmp.Or(c.Queue, DefaultQueue), 0)
	c.Attempts = cmp.Or(c.Attempts, DefaultAttempts)
	c.Backoff = cmp.Or(c.Backoff, DefaultBackoff)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, DefaultMaxBackoff)
	c.LogEvery = cmp.Or(c.LogEvery, DefaultLogEvery)
	c.Deadline = http.CanonicalHeaderKey(c.Deadline)
	c.Criticality = http.CanonicalHeaderKey(c.Criticality)
	return c
}
