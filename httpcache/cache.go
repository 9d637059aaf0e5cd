// Package httpcache does the work of an expensive HTTP handler once, and
// answers many requests with it; what it cannot answer, it asks a limiter for.
//
//	c, err := httpcache.New(httpcache.Config{TTL: 10 * time.Second, Limiter: lim})
//	...
//	mux.Handle("GET /calculate", c.Handler(calculate))
package httpcache

import (
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/cache"
)

// A Cache keeps whole responses to GET and HEAD. It is safe for concurrent use.
//
// A request is answered by a kept response, or by the response to another
// request for the same that is being made, or by the handler, if the limiters
// let it. So a limiter never refuses what is kept, and the handler runs once
// however many want the same.
//
// # What the handler sees
//
// For a response that may be kept, the handler runs under a context of its own,
// with the values of one client's, which ends when the last client that waits
// has left, or with Timeout. A response counts only if its context has not ended
// before it. A handler that does not heed its context is waited for.
//
// Its request is a copy, without Range and conditions: these the Cache answers
// itself, from the whole response. Its URL and RequestURI are path and query
// only, and an offer of h2c is taken out.
//
// Its ResponseWriter gathers the response: Flush does nothing, and there is
// neither Hijack nor deadlines. So do not wrap what is streamed, unless it is an
// event stream: it comes when it is whole, or too large.
//
// Past the cache go requests with another method, a body, an Upgrade, without
// a key, for an event stream (by their Accept), or with a target that has more
// than a path and their Host; and those with Cache-Control: no-store for which
// no fresh response is kept. The handler gets them as they are, with the
// server's ResponseWriter or, if there is a limiter or the method may change
// something, with one that does as much; only Pusher and CloseNotifier are
// behind its Unwrap then. Other wishes of a client (no-cache, max-age=0,
// only-if-cached) are ignored: otherwise any client could break the protection.
//
// A method that may change something (any but GET, HEAD, OPTIONS and TRACE)
// removes, when the handler has ended with a status of 2xx or 3xx, what is kept
// for its URL, as Delete does.
//
// # What is shared
//
// A response is kept, and sent to others, unless
//
//   - its status is none of 200 203 204 300 301 308 404 405 410 414 501,
//   - it has Set-Cookie, Trailer or trailers, or Vary: *,
//   - its Cache-Control has private, no-store or no-cache, also for single
//     headers, or a quote that does not end,
//   - its request has credentials (Authorization, Cookie, a TLS client's
//     certificate) and it has neither public nor s-maxage, or is not fresh.
//     Requests with credentials have keys of their own, so that they cannot
//     keep others from sharing,
//   - it is larger than MaxBody, or a text/event-stream.
//
// Whoever waited for such a response runs the handler itself, within the
// limiters, and so does whoever asks for the same resource while Pass lasts. A
// response that is too large, an event stream, or has trailers, is broken off as
// soon as that is known (writes fail, the context ends), and the handler runs
// again, past the cache: that work is done twice, once every Pass. Nobody waits
// for the end of the first run, which keeps what the limiter gave it until then.
//
// An answer of status 4xx that is not in the list above tells of its client's
// request, not of the resource: only that client gets it, and what is kept
// stays. Whoever waited for it runs the handler, or gets an old response if
// there is one.
//
// What is shared but was no longer fresh when it came (max-age=0) goes to those
// who waited, and is not kept. The headers named in the Vary of its responses
// tell the variants of a resource apart. A handler that answers by a request
// header has to name it there, or others get its answer. Values of the context,
// RemoteAddr, X-Forwarded-* (but X-Forwarded-Proto: https counts as TLS) and
// credentials in headers of one's own, such as X-API-Key, are in no key unless
// Config.Key or Vary puts them there.
//
// An outer middleware that encodes what it gets has to say so before, by
// Content-Encoding: then there is neither Content-Length nor Range.
//
// # Errors
//
// An answer of status 5xx is an error, 503 and 429 a rejection: an old response
// is sent instead where Config says so. Otherwise it goes to all who wait,
// if it could be shared by the rules above, status apart. If the handler
// panics, all who wait panic with an error that wraps a *flight.PanicError, and
// says what it panicked with and where; or with http.ErrAbortHandler if that was
// it.
type Cache struct {
	cfg      Config
	vary     []string // the canonical names of cfg.Vary
	answers  *cache.Cache[key, value]
	errors   *cache.Cache[*failure, *response] // nil without ErrorTTL
	handlers atomic.Uint64                     // the number of handlers so far, and of the last one
	counts   [answered]atomic.Uint64

	mu    sync.Mutex    // held to learn that a resource varies, and to forget
	epoch atomic.Uint64 // counts calls of Delete and Purge; written under mu
	salt  uint64        // of the last mark
}

// A value is what is kept by a key: a response, or a mark in its place.
type value struct {
	resp *response
	mark *mark
}

// A mark says of a key that there is no response.
type mark struct {
	pass  bool     // what is there may not be shared; or
	names []string // it depends on the values of these headers, sorted, and is
	salt  uint64   // kept by a key made of their values, and of this
	base  key      // by this key the mark is kept
}

var passing = &mark{pass: true}

// New returns a Cache. The error is Validate's.
func New(cfg Config) (*Cache, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg.withDefaults()}
	c.vary = canonical(cfg.Vary)
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
	c.answers, err = cache.New(cache.Config[key, value]{
		Bytes: bytes, Cost: cost, TTLOf: c.ttl, Early: cfg.Early,
		ErrorTTL: cfg.ErrorTTL, KeepError: keeps,
		Stale: cfg.Stale, StaleIfError: cfg.StaleIfError, StaleIfRejected: cfg.StaleIfRejected,
		Background: cfg.Background, Timeout: cfg.Timeout,
	})
	return c, err
}

func (c *Cache) ttl(k key, v value) time.Duration {
	switch {
	case v.resp != nil && v.resp.ttl > 0:
		return v.resp.ttl
	case v.resp == nil && v.mark.pass:
		return c.cfg.Pass
	case v.resp == nil && v.mark.base == k:
		return math.MaxInt64
	}
	return -1
}

// Handler returns a handler that answers as next does, out of the cache where
// it can. Responses of two handlers are never mixed, whatever their keys.
func (c *Cache) Handler(next http.Handler) http.Handler {
	return &handler{cache: c, id: c.handlers.Add(1), next: next}
}

// Delete removes the responses for a request: those to GET and HEAD of all
// handlers, with and without credentials, in all variants but by the headers of
// Config.Vary, whose values are taken from r. A response that is being
// made goes to those who wait for it, and is not kept.
//
// Of r, only what Config.Key looks at counts, or else Host, path and query:
// one made by http.NewRequest will do, with the URL as the handler sees it, such
// as behind a http.StripPrefix.
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

// Purge removes everything, as Delete does.
func (c *Cache) Purge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch.Add(1)
	c.answers.Purge()
	if c.errors != nil {
		c.errors.Purge()
	}
}

// Close cancels the refreshes in the background, and waits until their runs of
// the handler have ended, but for those whose response was broken off. It may be called more than once, and does nothing
// without Config.Background.
func (c *Cache) Close() { c.answers.Close() }

// What became of a request.
const (
	hit = iota
	stale
	filled
	coalesced
	passed
	rejected
	failed
	answered
)

// Stats says what a Cache has done since it was made, and what it holds.
type Stats struct {
	// Every request is one of these.
	Hits      uint64 // answered by a fresh response, or an error that is kept
	Stale     uint64 // answered by a response that is no longer fresh
	Filled    uint64 // answered by the run of the handler that it began
	Coalesced uint64 // answered by the run that another request began
	Passed    uint64 // handed on to the handler
	Rejected  uint64 // refused by a limiter
	Failed    uint64 // without an answer: a deadline, a client that left, a panic

	Evicted uint64 // responses, and marks of resources, that went to make room
	Entries int    // responses and marks that are kept
	Bytes   int64  // what they take of Config.Bytes
}

// Stats returns what the Cache has done. Counts of requests that go on
// meanwhile may be in it or not.
func (c *Cache) Stats() Stats {
	kept := c.answers.Stats()
	n := func(what int) uint64 { return c.counts[what].Load() }
	if c.errors != nil {
		kept.Bytes += c.errors.Stats().Bytes
	}
	return Stats{
		Hits: n(hit), Stale: n(stale), Filled: n(filled), Coalesced: n(coalesced),
		Passed: n(passed), Rejected: n(rejected), Failed: n(failed),
		Evicted: kept.Evicted, Entries: kept.Entries, Bytes: kept.Bytes,
	}
}
