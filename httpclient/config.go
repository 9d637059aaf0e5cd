package httpclient

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/httpheader"
	"github.com/weir-go/weir/throttle"
)

// MaxHosts is the number of hosts and keys that a Transport keeps in memory.
const MaxHosts = 10_000

// Config sets up a Transport. The zero value is usable: it paces requests, retries
// up to a tenth of them plus one per second, and throttles requests to a host that
// refuses most of them. It does not limit concurrency.
//
// The functions are called from several goroutines at once.
type Config struct {
	// Base sends the requests. If nil, http.DefaultTransport.
	Base http.RoundTripper
	// Key, if not nil, separates requests to one host that use different quotas:
	// it returns the account, for example, if a process acts for several, or the
	// path, if each path has its own quota. Requests with different keys share no
	// state. If nil, all requests to a host (scheme, name and port) share it.
	Key func(r *http.Request) string

	// MaxWait bounds each wait that a server asks for. A request that would wait
	// longer fails at once. If zero, 30 seconds; if negative, only the
	// context of the request bounds it.
	MaxWait time.Duration
	// MaxHold bounds the time for which a server can keep requests waiting; then
	// one request is sent to ask again. If zero, one minute; if negative, the
	// Transport does not pace: only retries wait for Retry-After.
	MaxHold time.Duration
	// Queue bounds the number of requests per host that wait. If zero,
	// 1000; if negative, no request waits.
	Queue int

	// Retry sets up the retries, with a budget per host. To turn them off, set
	// its Attempts to 1.
	Retry throttle.RetryConfig
	// Throttle sets up the adaptive throttle of each host. To turn it off, set
	// its MaxP to -1.
	Throttle throttle.Config

	// PerHost, if not nil, returns the limiter of a host, such as
	// "https://example.com". It is called once per host and key, at the first
	// request, until the host is forgotten. A nil limiter is no limit.
	// httplimit.Auto is a PerHost that finds the limit by measurement.
	PerHost func(host string) weir.Limiter

	// Deadline names the request header that tells the server how much time the
	// context of the request leaves, in whole milliseconds. If empty, none.
	Deadline string
	// Criticality names the request header that tells the server the Priority in
	// the context of the request: "sheddable", "sheddable_plus", "critical" or
	// "critical_plus". If empty, none.
	Criticality string

	// Log, if not nil, gets a line when requests to a host are delayed or
	// refused: the first at once, then at most one per minute and host.
	Log *slog.Logger
}

// reserved are the request headers that net/http sets or removes itself.
var reserved = []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer", "Connection"}

// validate returns an error that names the first field that makes no sense.
func (c *Config) validate() error {
	for _, h := range []struct{ field, name string }{{"Deadline", c.Deadline}, {"Criticality", c.Criticality}} {
		switch name := http.CanonicalHeaderKey(h.name); {
		case h.name != "" && !httpheader.ValidName(h.name):
			return fmt.Errorf("httpclient: %s = %q: must be the name of a header", h.field, h.name)
		case slices.Contains(reserved, name):
			return fmt.Errorf("httpclient: %s = %q: net/http sets that header itself", h.field, h.name)
		}
	}
	if c.Criticality != "" && strings.EqualFold(c.Criticality, c.Deadline) {
		return fmt.Errorf("httpclient: Criticality = %q: must differ from Deadline", c.Criticality)
	}
	if _, err := adaptive.RetryConfig(c.Retry).NewBudget(); err != nil {
		return fmt.Errorf("httpclient: Retry: %w", err)
	}
	if err := adaptive.Config(c.Throttle).Validate(); err != nil {
		return fmt.Errorf("httpclient: Throttle: %w", err)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Base == nil {
		c.Base = http.DefaultTransport
	}
	c.Retry = throttle.RetryConfig(adaptive.RetryConfig(c.Retry).WithDefaults())
	c.Deadline = http.CanonicalHeaderKey(c.Deadline)
	c.Criticality = http.CanonicalHeaderKey(c.Criticality)
	return c
}
