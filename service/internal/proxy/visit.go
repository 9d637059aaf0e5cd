package proxy

import (
	"context"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/internal/pathshape"
)

// A visit is a request on its way through a plan, and the context of the request.
type visit struct {
	context.Context // nil if the rules do not decide about the request
	plan            *plan
	class           *class
	route           string // empty if the limits of the class have requests of one route
	decided         bool   // the rules have admitted the request
}

type visitKey struct{}

func (v *visit) Value(key any) any {
	if key == (visitKey{}) {
		return v
	}
	return v.Context.Value(key)
}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

// visit returns the visit of a request. Its end must follow.
func (p *Proxy) visit(r *http.Request) *visit {
	for {
		pl := p.plan.Load()
		pl.deciding.Add(1)
		if p.plan.Load() == pl { // otherwise, its counts may have been collected already
			c, pattern := pl.classify(r)
			return &visit{plan: pl, class: c, route: c.route(r, pattern)}
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
func (v *visit) end(p *Proxy) {
	if !v.decided {
		v.plan.deciding.Add(-1)
		p.all.denied.Add(1)
		v.class.counts.denied.Add(1)
	}
}

// CountDenied counts a request that the caller has denied, and answered itself.
func (p *Proxy) CountDenied(r *http.Request) {
	v := p.visit(r)
	defer v.end(p)
	p.all.requests.Add(1)
	v.class.counts.requests.Add(1)
}

// ruled serves a request by the file of rules.
func (p *Proxy) ruled(w http.ResponseWriter, r *http.Request) {
	v := p.visit(r)
	defer v.end(p)
	c, reader := v.class, v.plan.reader
	p.all.requests.Add(1)
	c.counts.requests.Add(1)
	v.Context = r.Context()
	var ctx context.Context = v
	class := weir.Class{Priority: reader.Priority(r, c.priority), Tenant: reader.Tenant(r)}
	if class != (weir.Class{}) {
		ctx = weir.WithClass(ctx, class)
	}
	if !c.shadow {
		wait, ok := reader.Deadline(r)
		if c.deadline > 0 && (!ok || c.deadline < wait) {
			wait, ok = c.deadline, true
		}
		if ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, wait, errDeadline)
			defer cancel()
		}
	}
	r = r.WithContext(ctx)
	if !c.bound(w, r) {
		v.decide()
		p.refuseBody(w, r, c)
		return
	}
	v.plan.handler.ServeHTTP(w, r)
}

// refuseBody answers a request with a body that is too large.
func (p *Proxy) refuseBody(w http.ResponseWriter, r *http.Request, c *class) {
	p.all.tooLarge.Add(1)
	c.counts.tooLarge.Add(1)
	if r.ProtoMajor == 1 { // the body is still on the connection
		w.Header().Set("Connection", "close")
	}
	bodyTooLarge.Write(w, r, nil)
}

// decided serves a request that the rules have admitted.
func (p *Proxy) decided(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r)
	v.decide()
	if v.class.cache != nil {
		v.class.cache.serve(w, r)
		return
	}
	p.limited(w, r, v.class, v.route)
}

// decide ends the part of the visit that the plan counts.
func (v *visit) decide() {
	v.decided = true
	v.plan.deciding.Add(-1)
}

// limited sends a request of a route to the origin within the limit of its class, or refuses it.
func (p *Proxy) limited(w http.ResponseWriter, r *http.Request, c *class, route string) {
	if !p.spare(w, r, c) {
		return
	}
	size, err := p.receive(w, r)
	if size > 0 {
		defer p.bodies.Add(-size)
	}
	if err != nil {
		notReceived(w, r, err)
		return
	}
	arrived := p.now()
	var ps permits
	if err := c.acquire(r.Context(), route, -1, &ps); err != nil {
		p.refuse(w, r, c, err)
		return
	}
	now := p.now()
	x := p.begin(w, r, c, &ps, now)
	waited := now - arrived
	p.all.admit(waited)
	c.counts.admit(waited)
	if failed := x.serve(w, r); failed != nil {
		x.elsewhere(w, r, route, failed)
	}
}

// serve forwards the request of an exchange, and ends the exchange. An error means that the request is to be sent to another
// origin.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) (failed error) {
	defer x.finish()
	failed = x.forward(w, r)
	x.whole = failed == nil
	return failed
}

// refuse answers a request that got no units, and gives back the tokens of its rules.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, c *class, err error) {
	p.all.reject(err)
	c.counts.reject(err)
	httplimit.Use(w, 0)
	reject(w, r, err)
}
