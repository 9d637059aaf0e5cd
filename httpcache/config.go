package httpcache

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// Defaults where Config leaves things open.
const (
	DefaultBytes   = 64 << 20
	DefaultMaxBody = 1 << 20
	DefaultPass    = time.Minute
)

// Config is what a Cache is made of. The zero value is usable: nothing is
// limited, requests of the same kind share one answer while it is made, and
// responses are kept that say for how long.
//
// The functions are called by several goroutines at once.
type Config struct {
	// Bytes bounds the memory for responses, in bytes: their bodies, headers
	// and keys, and what is remembered of resources. If zero, DefaultBytes; at
	// most cache.MaxBytes.
	Bytes int64
	// MaxBody bounds the body of a response, in bytes. What is larger is not
	// stored, but streamed. If zero, DefaultMaxBody; at most Bytes.
	MaxBody int64

	// TTL is how long a response is fresh that does not say so itself, by
	// s-maxage, max-age or Expires. If zero, such a response goes only to those
	// who wait for it.
	TTL time.Duration
	// ErrorTTL is how long an answer of status 5xx, or a missed deadline, is
	// kept, and sent at once to whoever asks, in an eighth of Bytes. If zero, it
	// goes only to those who wait for it. 503 and 429 are never kept.
	ErrorTTL time.Duration
	// Stale is how long beyond its freshness a response is sent while one
	// request fetches a new one. If zero, everybody waits for the new one. It
	// and the next two are the operator's word: must-revalidate in a response
	// does not change them.
	Stale time.Duration
	// StaleIfError is how long beyond its freshness a response is sent in place
	// of an answer of status 5xx, a panic or a missed deadline. If zero, never.
	StaleIfError time.Duration
	// StaleIfRejected is how long beyond its freshness a response is sent if a
	// limiter rejects, or the handler answers 503 or 429. If zero, never.
	StaleIfRejected time.Duration
	// Jitter takes up to this share off the freshness of each response, at
	// random; in [0, 1). If zero, none.
	Jitter float64
	// Early is the β of probabilistic early refresh, see cache.Config. If zero,
	// never.
	Early float64
	// Background makes refreshes run on goroutines of the Cache, which must be
	// closed then. If false, the request that finds a refresh due waits for it.
	Background bool
	// Timeout bounds each run of the handler for the cache, the wait for the
	// limiters included. If zero, it ends when its last client has left. A
	// handler that does not heed its context outlives it, and those who wait for
	// it wait on.
	Timeout time.Duration

	// Limiter, if not nil, is asked before each run of the handler, for the
	// cache or past it; never for what the cache can answer. It is asked with the
	// context values of the client who began the run: those who wait for the same
	// share its rejection, also if only that client may be shed.
	Limiter weir.Limiter
	// PerKey, if not nil, returns a limiter of one key: what Key returns for the
	// client's request or, if that is nil, method, host and URL, as in
	// "GET example.com/a?b". It is asked before Limiter, but not for requests
	// that have no key, and may return nil, for no limit. It knows no more than
	// the key because all who wait for an answer share its rejection.
	PerKey func(key string) weir.Limiter

	// Key, if not nil, returns what tells resources apart beside method,
	// handler, and whether the request has credentials or came over TLS (to us,
	// or by its X-Forwarded-Proto). If nil, the host, the path and the raw query.
	// If ok is false, the request passes. It is asked once for each request, of
	// any method; so that others remove what GET has left, it should not return
	// the method.
	Key func(r *http.Request) (key string, ok bool)
	// Vary names request headers whose values are always part of the key. What
	// the Vary of a response names is found out without it.
	Vary []string
	// IgnoreCookies says that responses do not depend on cookies: the handler
	// does not see the Cookie of a request whose response may be stored. If
	// false, a request with Cookie has credentials.
	IgnoreCookies bool
	// Pass is how long a resource whose response may not be shared is
	// remembered: meanwhile nobody waits for another's response to it. If zero,
	// DefaultPass.
	Pass time.Duration
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"TTL", c.TTL}, {"ErrorTTL", c.ErrorTTL}, {"Stale", c.Stale}, {"StaleIfError", c.StaleIfError},
		{"StaleIfRejected", c.StaleIfRejected}, {"Timeout", c.Timeout}, {"Pass", c.Pass},
	} {
		if d.d < 0 {
			return fmt.Errorf("httpcache: %s = %v: must be >= 0", d.name, d.d)
		}
	}
	full := c.withDefaults()
	switch {
	case c.Bytes < 0 || c.Bytes > cache.MaxBytes:
		return fmt.Errorf("httpcache: Bytes = %d: must be from 0 to %d", c.Bytes, int64(cache.MaxBytes))
	case c.MaxBody < 0 || c.MaxBody > full.Bytes:
		return fmt.Errorf("httpcache: MaxBody = %d: must be from 0 to Bytes, %d", c.MaxBody, full.Bytes)
	case !(c.Jitter >= 0 && c.Jitter < 1):
		return fmt.Errorf("httpcache: Jitter = %v: must be in [0, 1)", c.Jitter)
	case !(c.Early >= 0 && c.Early <= 1e9):
		return fmt.Errorf("httpcache: Early = %v: must be from 0 to 1e9", c.Early)
	}
	for i, name := range c.Vary {
		if name == "" || name == "*" {
			return fmt.Errorf("httpcache: Vary[%d] = %q: must name a header", i, name)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Bytes == 0 {
		c.Bytes = DefaultBytes
	}
	if c.MaxBody == 0 {
		c.MaxBody = min(DefaultMaxBody, c.Bytes)
	}
	if c.Pass == 0 {
		c.Pass = DefaultPass
	}
	return c
}
