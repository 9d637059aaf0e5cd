package proxy

import (
	"context"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/plan"
	"github.com/weir-go/weir/service/internal/proxy/tally"
)

// A visit is a request on its way through a plan.
type visit struct {
	forward.Request
	class   *plan.Class
	proxy   *Proxy
	plan    *plan.Plan
	decided bool // the rules have admitted the request
}

// visit returns the visit of a request. Its end must follow.
func (p *Proxy) visit(r *http.Request, from *clients.Client) *visit {
	for {
		pl := p.plan.Load()
		pl.Deciding.Add(1)
		if p.plan.Load() == pl { // otherwise, its counts may have been collected already
			c, pattern := pl.Classify(r)
			return &visit{Request: forward.Request{Client: *from, Class: &c.Class, Route: c.RouteOf(r, pattern)}, class: c, proxy: p, plan: pl}
		}
		pl.Deciding.Add(-1)
	}
}

// end ends the visit. If the rules have not admitted the request, they have denied it, or
// its client has left. Its record gets the class of the context.
func (v *visit) end(r *http.Request, class context.Context) {
	if v.decided {
		return
	}
	v.plan.Deciding.Add(-1)
	v.class.Counts.CountDenied()
	err := r.Context().Err()
	if err == nil {
		err = errDenied
	}
	v.proxy.forwarder.Record(class, &v.Request, err)
}

// errDenied is the rejection of a request that the rules have denied, in its record.
var errDenied error = &weir.Rejection{Reason: weir.OverRate}

// CountDenied counts a request that the caller has denied, and answered itself.
func (p *Proxy) CountDenied(r *http.Request) {
	v := p.visit(r, new(clients.Client))
	defer v.end(r, r.Context())
	v.class.Counts.CountRequest()
}

// ruled serves a request by the file of rules.
func (p *Proxy) ruled(w http.ResponseWriter, r *http.Request, from *clients.Client) {
	v, ctx := p.visit(r, from), r.Context()
	defer func(r *http.Request) { v.end(r, ctx) }(r)
	c, reader := v.class, v.plan.Reader
	c.Counts.CountRequest()
	class := weir.Class{Priority: reader.Priority(r, c.Priority), Tenant: reader.Tenant(r)}
	if class != (weir.Class{}) {
		ctx = weir.WithClass(ctx, class)
	}
	if !c.Shadow {
		wait, ok := reader.Deadline(r)
		if c.Deadline > 0 && (!ok || c.Deadline < wait) {
			wait, ok = c.Deadline, true
		}
		if ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, wait, forward.ErrDeadline)
			defer cancel()
		}
	}
	if !c.BoundBody(w, r) {
		v.decide()
		forward.RefuseTooLarge(w, r, c.Counts)
		return
	}
	if ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	if v.plan.Rates == nil {
		v.ServeHTTP(w, r)
	} else {
		v.plan.Rates.Handler(v).ServeHTTP(w, r)
	}
}

// ServeHTTP serves a request that the rules have admitted.
func (v *visit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.decide()
	if v.class.Cache != nil {
		v.serveCached(w, r)
		return
	}
	v.proxy.limited(w, r, v.class, &v.Request)
}

// decide ends the part of the visit that the plan counts.
func (v *visit) decide() {
	v.decided = true
	v.plan.Deciding.Add(-1)
}

// limited sends a request to the origin within the limit of its class, or refuses it.
func (p *Proxy) limited(w http.ResponseWriter, r *http.Request, c *plan.Class, q *forward.Request) {
	if p.spare(w, r, c, q) {
		p.forwarder.Forward(w, r, q)
	}
}

// A visit goes through a cache in the context of its request, because only that reaches the handler which fills the
// cache.
type visitKey struct{}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

// cacheKey returns what a request on its way through a cache names.
func cacheKey(r *http.Request) (key string, ok bool) { return visitOf(r).Client.Resource(r), true }

// fillCache serves a request that a cache does not answer.
func (p *Proxy) fillCache(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	p.limited(w, r, v.class, &v.Request)
}

// serveCached answers from the cache. A request that the limit has rejected gets its tokens back,
// also if another request for the same resource was rejected in its place.
func (v *visit) serveCached(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	v.class.Cache.Serve(v.Client.RestoreReason(w), r)
	if limitReasons[w.Header().Get(ReasonHeader)] {
		httplimit.Use(w, 0)
	}
}

// limitReasons are the reasons of answers to requests that a limit or the guard has rejected.
var limitReasons = map[string]bool{
	weir.OverLimit.String(): true, weir.QueueFull.String(): true, weir.Overdue.String(): true, weir.TooLate.String(): true,
	tally.Pressure: true,
}
