package proxy

import (
	"context"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/pathshape"
	"github.com/weir-go/weir/service/internal/proxy/clients"
	"github.com/weir-go/weir/service/internal/proxy/forward"
)

// A visit is a request on its way through a plan.
type visit struct {
	forward.Request
	class   *class
	proxy   *Proxy
	plan    *plan
	decided bool // the rules have admitted the request
}

// visit returns the visit of a request. Its end must follow.
func (p *Proxy) visit(r *http.Request, from clients.Client) *visit {
	for {
		pl := p.plan.Load()
		pl.deciding.Add(1)
		if p.plan.Load() == pl { // otherwise, its counts may have been collected already
			c, pattern := pl.classify(r)
			return &visit{Request: forward.Request{Client: from, Class: &c.Class, Route: c.route(r, pattern)}, class: c, proxy: p, plan: pl}
		}
		pl.deciding.Add(-1)
	}
}

// classify returns the class of a request, and the pattern that it has matched; an empty one in
// the class default.
func (pl *plan) classify(r *http.Request) (c *class, pattern string) {
	if pattern, ok := pl.routes.Match(r); ok {
		return pl.classes[pl.classOf[pattern]], pattern
	}
	return pl.other, ""
}

// route returns the route of a request that has matched a pattern of the class.
func (c *class) route(r *http.Request, pattern string) string {
	switch {
	case !c.mixed:
		return ""
	case pathshape.Several(pattern):
		return pathshape.Shape(r.Method, r.URL.Path)
	}
	return pattern
}

// end ends the visit. If the rules have not admitted the request, they have denied it, or
// its client has left.
func (v *visit) end() {
	if !v.decided {
		v.plan.deciding.Add(-1)
		v.class.Counts.CountDenied()
	}
}

// CountDenied counts a request that the caller has denied, and answered itself.
func (p *Proxy) CountDenied(r *http.Request) {
	v := p.visit(r, clients.Client{})
	defer v.end()
	v.class.Counts.CountRequest()
}

// ruled serves a request by the file of rules.
func (p *Proxy) ruled(w http.ResponseWriter, r *http.Request, from clients.Client) {
	v := p.visit(r, from)
	defer v.end()
	c, reader := v.class, v.plan.reader
	c.Counts.CountRequest()
	ctx := r.Context()
	class := weir.Class{Priority: reader.Priority(r, c.priority), Tenant: reader.Tenant(r)}
	if class != (weir.Class{}) {
		ctx = weir.WithClass(ctx, class)
	}
	if !c.Shadow {
		wait, ok := reader.Deadline(r)
		if c.deadline > 0 && (!ok || c.deadline < wait) {
			wait, ok = c.deadline, true
		}
		if ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, wait, forward.ErrDeadline)
			defer cancel()
		}
	}
	if !c.bound(w, r) {
		v.decide()
		forward.RefuseTooLarge(w, r, c.Counts)
		return
	}
	if ctx != r.Context() {
		r = r.WithContext(ctx)
	}
	if v.plan.rates == nil {
		v.ServeHTTP(w, r)
	} else {
		v.plan.rates.Handler(v).ServeHTTP(w, r)
	}
}

// ServeHTTP serves a request that the rules have admitted.
func (v *visit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.decide()
	if v.class.cache != nil {
		v.class.cache.serve(w, r, v)
		return
	}
	v.proxy.limited(w, r, v.class, v.Request)
}

// decide ends the part of the visit that the plan counts.
func (v *visit) decide() {
	v.decided = true
	v.plan.deciding.Add(-1)
}

// limited sends a request to the origin within the limit of its class, or refuses it.
func (p *Proxy) limited(w http.ResponseWriter, r *http.Request, c *class, q forward.Request) {
	if p.spare(w, r, c) {
		p.forwarder.Forward(w, r, q)
	}
}
