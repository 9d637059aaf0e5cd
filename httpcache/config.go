package httpcache

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// Defaults of Config.
const (
	DefaultBytes   = 64 << 20
	DefaultMaxBody = 1 << 20
	DefaultPass    = time.Minute
)

// Config configures a Cache. With the zero value, nothing limits the handler,
// requests for the same resource share one response while it is made, and only
// responses that state how long they are fresh are kept.
//
// The functions are called by several goroutines at once.
type Config struct {
	// Bytes is the largest memory for responses, in bytes: their bodies,
	// headers and keys, and what is remembered of resources. If zero,
	// DefaultBytes; at most cache.MaxBytes.
	Bytes int64
	// MaxBody is the largest body of a response that is kept, in bytes. Larger
	// ones are streamed. If zero, DefaultMaxBody; at most Bytes.
	MaxBody int64

	// DefaultTTL is how long a response is fresh that does not say so itself,
	// by s-maxage, max-age or Expires. If zero, such a response goes only to the
	// requests that wait for it.
	DefaultTTL time.Duration

	// Refresh is described in package cache, with these differences. A fill is
	// a run of the handler: a status of 5xx, a panic or a missed deadline is an
	// error, 503 and 429 are rejections. Stale, StaleIfError and StaleIfRejected do
	// not hold for a response with must-revalidate or proxy-revalidate, nor for one
	// with s-maxage but neither stale-while-revalidate nor stale-if-error of more than
	// zero seconds (RFC 9111, 4.2.4). The errors that ErrorTTL keeps take at most an eighth of Bytes. Limiter
	// is also asked for runs past the cache.
	cache.Refresh

	// PerKey returns a limiter of one key: the result of Key for
	// the client's request or, if Key is nil, method, host and URL, as in
	// "GET example.com/a?b". It is asked before Limiter, but not for requests
	// without a key. If it is nil or returns nil, only Limiter counts. It has only
	// the key, because all requests that wait for a response share its rejection.
	PerKey func(key string) weir.Limiter

	// Key returns the key of a resource. If nil, the key is the host, the path and
	// the raw query. Method, handler, and whether the request
	// has credentials, came over TLS, or has X-Forwarded-Proto: https, are always
	// part of it. If ok is false, the request passes the cache. Key is asked
	// once per request, of any method; it should not return the method, so that
	// a PUT removes what a GET has left.
	Key func(r *http.Request) (key string, ok bool)
	// Vary names request headers; their values are always part of the key. The
	// Vary of a response is followed without it. If empty, none.
	Vary []string
	// IgnoreCookies declares that responses do not depend on cookies: the
	// handler does not see the Cookie of a request if the response may be kept.
	// If false, a request with a Cookie has credentials.
	IgnoreCookies bool
	// Pass is how long the Cache remembers that the response of a resource may
	// not be shared. Meanwhile, requests for it do not wait for each other. If
	// zero, DefaultPass.
	Pass time.Duration
}

// validate returns an error that names the first field with a bad value, except for
// fields that package cache checks.
func (c *Config) validate() error {
	full := c.withDefaults()
	switch {
	case c.DefaultTTL < 0:
		return fmt.Errorf("httpcache: DefaultTTL = %v: must be >= 0", c.DefaultTTL)
	case c.Pass < 0:
		return fmt.Errorf("httpcache: Pass = %v: must be >= 0", c.Pass)
	case !(c.Jitter >= 0 && c.Jitter < 1):
		return fmt.Errorf("httpcache: Jitter = %v: must be in [0, 1)", c.Jitter)
	case c.Bytes < 0 || c.Bytes > cache.MaxBytes:
		return fmt.Errorf("httpcache: Bytes = %d: must be from 0 to %d", c.Bytes, int64(cache.MaxBytes))
	case c.MaxBody < 0 || c.MaxBody > full.Bytes:
		return fmt.Errorf("httpcache: MaxBody = %d: must be from 0 to Bytes, %d", c.MaxBody, full.Bytes)
	}
	for i, name := range c.Vary {
		if name == "" || name == "*" {
			return fmt.Errorf("httpcache: Vary[%d] = %q: must name a header", i, name)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Bytes = cmp.Or(c.Bytes, DefaultBytes)
	c.MaxBody = cmp.Or(c.MaxBody, min(DefaultMaxBody, c.Bytes))
	c.Pass = cmp.Or(c.Pass, DefaultPass)
	return c
}
