package httpcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/observe"
)

// The Cache-Status (RFC 9211) of responses that are not hits.
const (
	byRequest = "weir; fwd=request"
	bypass    = "weir; fwd=bypass"
	miss      = "weir; fwd=miss"
	kept      = "weir; fwd=miss; stored"
	collapsed = "weir; fwd=miss; collapsed"
)

// A handler is the result of Cache.Handler.
type handler struct {
	cache *Cache
	id    uint64
	next  http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.cache
	n := c.name(r)
	if !cacheable(r) {
		h.pass(w, r, n, "")
		return
	}
	if !n.ok {
		h.pass(w, r, n, bypass)
		return
	}
	t := c.traits(r)
	if r.Method == http.MethodHead {
		if resp := c.fresh(r, c.key(r, n, h.id, http.MethodGet, t)); resp != nil {
			c.answer(w, r, resp, cache.Hit)
			return
		}
	}
	base := c.key(r, n, h.id, r.Method, t)
	if cc := r.Header["Cache-Control"]; len(cc) == 0 || !parseDirectives(cc).noStore {
		h.lookup(w, r, n, base, nil, maxSteps)
	} else if resp := c.fresh(r, base); resp != nil {
		c.answer(w, r, resp, cache.Hit)
	} else {
		h.pass(w, r, n, byRequest)
	}
}

// fresh returns the fresh response that is kept for a request, or nil.
func (c *Cache) fresh(r *http.Request, base key) *response {
	k := base
	for range maxSteps {
		v, ok := c.answers.Peek(k)
		if !ok || v.resp != nil {
			return v.resp
		}
		k = c.variant(base, v.mark, r)
	}
	return nil
}

// maxSteps bounds the keys that are tried for one request. Each step after the
// first adds a header by which the resource varies.
const maxSteps = 8

// lookup answers a request from the cache, under its mark if there is one.
func (h *handler) lookup(w http.ResponseWriter, r *http.Request, n name, base key, m *mark, steps int) {
	c := h.cache
	l := &lookup{h: h, r: r, name: n, base: base, key: base, mark: m, epoch: c.epoch.Load()}
	if m != nil {
		l.key = c.variant(base, m, r)
	}
	v, status, err := c.answers.Lookup(r.Context(), l.key, l.fill)
	if c.cfg.Background > 0 && (status == cache.Stale || c.cfg.Early > 0) || r.Context().Err() != nil {
		l.copied.Do(l.copy) // the fill may still run when r belongs to another request
	}
	own := l.own.Load()
	switch {
	case own != nil && own.only:
		c.answer(w, r, own.resp, cache.Filled)
	case err != nil:
		l.fail(w, status, err)
	case v.resp != nil:
		c.answer(w, r, v.resp, status)
	case own != nil && own.err != nil: // the lookup returned an old mark instead
		l.fail(w, status, own.err)
	case own != nil:
		c.answer(w, r, own.resp, cache.Filled)
	case v.mark.pass || steps == 0:
		h.pass(w, r, n, bypass)
	default:
		h.lookup(w, r, n, base, v.mark, steps-1)
	}
}

// A lookup tries one key for one request.
type lookup struct {
	h     *handler
	r     *http.Request
	name  name
	base  key
	mark  *mark // of key, if it is not base
	key   key
	epoch uint64 // of the Cache, before the lookup

	copied  sync.Once
	inner   *http.Request // for the handler, once copied
	limited name          // for PerKey, likewise
	own     atomic.Pointer[result]
}

// A result belongs to this lookup's own run of the handler, and only to its
// request.
type result struct {
	resp   *response
	err    error
	shared bool // the resp of an err may go to other requests
	only   bool // it concerns this client's request, and not the resource
}

// copy makes the handler's request, and the key for PerKey.
func (l *lookup) copy() {
	l.limited = l.h.cache.limited(l.r, l.name)
	l.inner = l.r.Clone(context.WithoutCancel(l.r.Context()))
	for _, name := range conditions {
		delete(l.inner.Header, name)
	}
	if l.h.cache.cfg.IgnoreCookies {
		delete(l.inner.Header, "Cookie")
	}
	if len(l.inner.Header["Upgrade"]) > 0 {
		for _, name := range []string{"Connection", "Upgrade", "Http2-Settings"} {
			delete(l.inner.Header, name)
		}
	}
	l.inner.Body = http.NoBody
	l.inner.URL = &url.URL{Path: l.r.URL.Path, RawPath: l.r.URL.RawPath, RawQuery: l.r.URL.RawQuery}
	l.inner.RequestURI = l.inner.URL.RequestURI()
}

// answer sends a response that a lookup returned.
func (c *Cache) answer(w http.ResponseWriter, r *http.Request, resp *response, status cache.Status) {
	if status == cache.Failed { // its own fill made resp
		status = cache.Filled
	}
	c.counts[status].Add(1)
	switch {
	case status == cache.Hit, status == cache.Stale:
		resp.writeKept(w, r, status == cache.Stale)
	case status == cache.Coalesced:
		resp.write(w, r, "", collapsed)
	case resp.kept.Load():
		resp.write(w, r, "", kept)
	default:
		resp.write(w, r, "", miss)
	}
}

// fail answers a lookup that ended with an error.
func (l *lookup) fail(w http.ResponseWriter, status cache.Status, err error) {
	c := l.h.cache
	f, ok := errors.AsType[*failure](err)
	if !ok {
		c.refuse(w, l.r, err)
		return
	}
	if own := l.own.Load(); own != nil && own.err == err {
		if !own.shared && !own.resp.limited() && status == cache.Failed { // and there is no old response to keep
			c.answers.Set(l.key, value{mark: passing})
		}
		c.answer(w, l.r, own.resp, cache.Filled)
	} else if resp := l.shared(f); resp == nil {
		l.h.pass(w, l.r, l.name, bypass)
	} else if status == cache.Hit {
		c.answer(w, l.r, resp, cache.Hit)
	} else {
		c.answer(w, l.r, resp, cache.Coalesced)
	}
}

// refuse answers a request without a response of the handler.
func (c *Cache) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, weir.ErrRejected) {
		c.counts[rejected].Add(1)
	} else {
		c.counts[cache.Failed].Add(1)
	}
	if p, ok := errors.AsType[*flight.PanicError](err); ok {
		if p.Value == http.ErrAbortHandler {
			panic(http.ErrAbortHandler)
		}
		panic(panicked{p})
	}
	httplimit.Reject(w, r, err)
}

// panicked is the panic of a handler on another goroutine than the server's. In
// the server's log, it shows the stack of that goroutine.
type panicked struct{ *flight.PanicError }

func (p panicked) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// Unwrap returns the *flight.PanicError.
func (p panicked) Unwrap() error { return p.PanicError }

// pass passes a request on unchanged, within the limiters. If it may have changed
// its resource, the responses of that are removed (RFC 9111, 4.4).
func (h *handler) pass(w http.ResponseWriter, r *http.Request, n name, why string) {
	c := h.cache
	permit, err := c.limiter(c.limited(r, n)).Acquire(r.Context(), 1)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	defer permit.Release(weir.Ignored)
	c.counts[passed].Add(1)
	if why != "" {
		w.Header().Add("Cache-Status", why)
	}
	changes := !safe(r.Method)
	if !changes && c.cfg.Limiter == nil && c.cfg.PerKey == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	var o observe.Writer
	w = o.Observe(w)
	if changes {
		keys := c.keys(r, n) // before the handler can change r
		defer func() {       // also after a panic: the handler may have changed something
			if o.Status >= 200 && o.Status < 400 {
				c.forget(keys)
			}
		}()
	}
	h.next.ServeHTTP(w, r)
	o.Ended()
	permit.Release(observe.Outcome(r.Context(), o.Status))
}

// safe reports whether requests with a method do not change anything.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// limiter returns the limiters of a run of the handler; PerKey's for the key in n, if there
// is one.
func (c *Cache) limiter(n name) weir.Limiter {
	if c.cfg.PerKey == nil || !n.ok {
		return c.all
	}
	return weir.Chain(c.cfg.PerKey(n.text), c.cfg.Limiter)
}
