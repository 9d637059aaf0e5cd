package httpcache

import (
	"context"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/observe"
)

// pass hands a request on as it is, within the limiters. If it may have changed
// its resource, what is kept of that is removed (RFC 9111, 4.4).
func (h *handler) pass(w http.ResponseWriter, r *http.Request, n name, why string) {
	c := h.cache
	permit, err := c.acquire(r.Context(), c.limited(r, n))
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
		defer func() {       // also after a panic: it may have changed things before
			if o.Status >= 200 && o.Status < 400 {
				c.forget(keys)
			}
		}()
	}
	h.next.ServeHTTP(w, r)
	o.Ended()
	permit.Release(observe.Outcome(r.Context(), o.Status))
}

// safe reports whether requests with a method change nothing.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// acquire asks the limiters, PerKey's for the key that n says, if any.
func (c *Cache) acquire(ctx context.Context, n name) (weir.Permit, error) {
	lim := c.cfg.Limiter
	if c.cfg.PerKey != nil && n.ok {
		if one := c.cfg.PerKey(n.text); one != nil && lim != nil {
			lim = weir.Chain(one, lim)
		} else if one != nil {
			lim = one
		}
	}
	if lim == nil {
		return weir.Permit{}, nil
	}
	return lim.Acquire(ctx, 1)
}
