package httpcache

import (
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/observe"
)

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
