// Package httpcache keeps the responses of an expensive HTTP handler, so that
// the handler runs once for many requests, and asks a limiter before each run:
//
//	c, err := httpcache.New(httpcache.Config{DefaultTTL: 10 * time.Second, Refresh: cache.Refresh{Limiter: lim}})
//	...
//	mux.Handle("GET /calculate", c.Handler(calculate))
package httpcache

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

// A Cache keeps complete responses to GET and HEAD. It is safe for concurrent
// use.
//
// A request is answered by a kept response (HEAD also by a fresh one to GET), or by
// the response of another request for the same resource that is being made, or by
// the handler, if the limiters admit it. So a limiter never rejects what is kept, and the handler
// runs once for all requests that wait for the same response.
//
// # What the handler sees
//
// For a response that may be kept, the handler runs with its own context, which
// has the values of one client's context and ends when all clients that wait
// have left, or with Timeout. A response counts only if it ends before its
// context. A handler that ignores its context is waited for.
//
// The request is a copy without Range and conditional headers: the Cache
// evaluates these itself, on the complete response. URL and RequestURI are the
// path and the query only, and an offer of h2c is removed.
//
// The ResponseWriter collects the response: Flush does nothing, and there is no
// Hijack and no deadline. Do not wrap streams other than event streams: a
// response is sent when it is complete, or too large.
//
// These requests go past the cache to the handler: requests with another
// method, a body, an Upgrade, no key, an Accept of event streams, or a target
// with more than a path and the Host; and requests with Cache-Control: no-store
// if no fresh response is kept. The handler gets them unchanged. Their
// ResponseWriter is the server's or, if there is a limiter or the method may
// change something, a wrapper with the same abilities, except that Pusher and
// CloseNotifier need Unwrap. Other request directives (no-cache, max-age=0,
// only-if-cached) are ignored: otherwise any client could bypass the protection.
//
// A method that may change something (any but GET, HEAD, OPTIONS and TRACE)
// removes the responses for its URL, as Delete does, when the handler has ended
// with a status of 2xx or 3xx.
//
// # What is shared
//
// A response is kept, and sent to other clients, unless
//
//   - its status is none of 200 203 204 300 301 308 404 405 410 414 501,
//   - it has Set-Cookie, Trailer or trailers, or Vary: *,
//   - its Cache-Control has private, no-store or no-cache, also for single
//     headers, or is malformed,
//   - its request has credentials (Authorization, Cookie, a TLS client
//     certificate), and the response has neither public nor s-maxage, or is not fresh.
//     Requests with credentials have separate keys, so that they cannot keep
//     other requests from sharing,
//   - it is larger than MaxBody, or a text/event-stream.
//
// A request that waited for such a response runs the handler itself, within the
// limiters, and so do requests for the same resource until Pass is over. A
// response that is too large, an event stream, or has trailers, is cut off as
// soon as that is known (writes fail, the context ends), and the handler runs
// again, past the cache: that work is done twice, once per Pass. No request
// waits for the end of the first run, which keeps its permit until then.
//
// A response of status 4xx that is not in the list concerns its client's request
// and not the resource: only that client gets it, and kept responses stay. Other
// requests that waited for it run the handler, or get an old response.
//
// A response that was not fresh when it arrived (max-age=0) goes to the requests
// that waited, and is not kept. The headers named in the Vary of its responses
// select the variants of a resource. If a response depends on a request header,
// the handler must name it there, or other clients get that response.
// Context values, RemoteAddr, X-Forwarded-* (except whether there is
// X-Forwarded-Proto: https) and credentials in other headers, such as X-API-Key,
// are in no key unless Config.Key or Vary puts them there.
//
// An outer middleware that encodes responses must announce it before, by
// Content-Encoding: then there is neither Content-Length nor Range.
//
// # Errors
//
// A status of 5xx is an error, 503 and 429 are rejections: Config may allow an
// old response instead. Otherwise the response goes to all requests that wait, if
// it may be shared by the rules above, its status aside. If the handler panics,
// all requests that wait panic with an error that wraps a *flight.PanicError with
// the value and the stack; or with http.ErrAbortHandler if that was the value.
type Cache struct {
	cfg      Config
	vary     []string     // the canonical names of cfg.Vary
	all      weir.Limiter // cfg.Limiter, or one that admits everything
	answers  *cache.Cache[key, value]
	errors   *cache.Cache[*failure, *response] // nil without ErrorTTL
	handlers atomic.Uint64                     // the number of handlers so far, and of the last one
	counts   [answered]atomic.Uint64

	mu    sync.Mutex    // held to learn that a resource varies, and to forget
	epoch atomic.Uint64 // counts calls of Delete and Purge; written under mu
	salt  uint64        // of the last mark
}

// A value of the cache is a response, or a mark in its place.
type value struct {
	resp *response
	mark *mark
}

// A mark replaces the response of a key: either the resource passes the cache,
// or its responses vary and have keys of their own.
type mark struct {
	pass  bool     // the response may not be shared
	names []string // otherwise, the sorted headers with values in the response's key
	salt  uint64   // also in the response's key
	base  key      // the key of the mark
}

var passing = &mark{pass: true}

// New returns a Cache, or an error that names the first field with a bad value.
func New(cfg Config) (*Cache, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg.withDefaults()}
	c.vary, c.all = canonical(cfg.Vary), weir.Chain(cfg.Limiter)
	bytes := c.cfg.Bytes
	var err error
	if cfg.ErrorTTL > 0 {
		share := max(bytes/8, 1)
		bytes = max(bytes-share, 1)
		size := func(_ *failure, resp *response) int64 { return resp.cost() }
		c.errors, err = cache.New(cache.Config[*failure, *response]{Bytes: share, Cost: size, TTL: cfg.ErrorTTL})
		if err != nil {
			return nil, err
		}
	}
	refresh := cfg.Refresh
	refresh.Jitter, refresh.Limiter = 0, nil // the first is of the response's own TTL, the second asked by runs
	c.answers, err = cache.New(cache.Config[key, value]{Bytes: bytes, Cost: cost, TTLOf: c.ttl, NoStale: strict, Refresh: refresh})
	if err != nil {
		return nil, fmt.Errorf("http%w", err) // it begins with "cache: "
	}
	return c, nil
}

func (c *Cache) ttl(k key, v value, err error) time.Duration {
	switch {
	case err != nil && keeps(err):
		return 0
	case err != nil:
		return -1
	case v.resp != nil && v.resp.ttl > 0:
		return v.resp.ttl
	case v.resp == nil && v.mark.pass:
		return c.cfg.Pass
	case v.resp == nil && v.mark.base == k:
		return weir.Never
	}
	return -1
}

func strict(_ key, v value) bool { return v.resp != nil && v.resp.strict }

// Handler returns a handler that answers as next does, from the cache if it
// can. The responses of two handlers are never mixed, whatever their keys.
func (c *Cache) Handler(next http.Handler) http.Handler {
	return &handler{cache: c, id: c.handlers.Add(1), next: next}
}

// Delete removes the responses for a request: to GET and HEAD, of all handlers,
// with and without credentials, and in all variants; the values of the headers in
// Config.Vary come from r. If a response is being made, the
// requests that wait get it, but it is not kept.
//
// Delete uses of r what Config.Key uses: if Key is nil, Host, path and query, as the
// handler sees them (behind http.StripPrefix, for example). A request made by
// http.NewRequest will do.
func (c *Cache) Delete(r *http.Request) {
	c.forget(c.keys(r, c.name(r)))
}

func (c *Cache) forget(keys []key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch.Add(1)
	for _, k := range keys {
		c.answers.Delete(k)
	}
}

// Purge removes all responses, as Delete does.
func (c *Cache) Purge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch.Add(1)
	c.answers.Purge()
	if c.errors != nil {
		c.errors.Purge()
	}
}

// Close cancels the background refreshes and waits until their runs of the
// handler have ended, except for runs with a response that was cut off. It may be
// called more than once. It is needed only with Config.Background.
func (c *Cache) Close() { c.answers.Close() }

// The results of a request, besides each cache.Status.
const (
	passed = cache.Coalesced + 1 + iota
	rejected
	answered
)

// Stats are the counts since New, and the state. Each request is counted in one
// of Lookups (Hit also for a kept error, Failed for no answer: a missed deadline,
// a client that left, a panic), Passed and Rejected. The
// other fields describe the cache of responses, which also holds marks of
// resources.
type Stats struct {
	cache.Stats
	Passed   uint64 // requests that went past the cache to the handler
	Rejected uint64 // requests rejected by a limiter
}

// Stats returns the counts and the state. Requests that end meanwhile may be
// counted or not.
func (c *Cache) Stats() Stats {
	s := Stats{Stats: c.answers.Stats()}
	if c.errors != nil {
		s.Bytes += c.errors.Stats().Bytes
	}
	for status := range s.Lookups {
		s.Lookups[status] = c.counts[status].Load()
	}
	s.Passed, s.Rejected = c.counts[passed].Load(), c.counts[rejected].Load()
	return s
}
