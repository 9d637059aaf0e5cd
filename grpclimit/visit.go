package grpclimit

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
)

// A visit is one call on its way through an Interceptor. Visits are reused.
type visit struct {
	admission.Visit[Request]
	from    *Interceptor
	outcome weir.Outcome
	handle  *visited // the handler's context; nil if there are no rules
}

// enter asks all limits, and returns the handler's context. If it returns no
// error, leave must follow.
func (i *Interceptor) enter(r Request, stream bool) (*visit, context.Context, error) {
	if i.cfg.Criticality != "" {
		r.Context = i.heed(r)
	}
	v := i.visits.Get().(*visit)
	v.from, v.handle, v.outcome = i, nil, weir.Ignored // for a handler that panics
	class := i.class(r, stream)
	if err := i.door.Enter(i.routed(r, class), r, class, &v.Visit); err != nil {
		err = i.refuse(r.Context, v.Refuser(), err)
		v.Visit = admission.Visit[Request]{} // the message may be large
		i.visits.Put(v)
		return nil, nil, err
	}
	if len(i.cfg.Rules) == 0 {
		return v, r.Context, nil
	}
	v.handle = &visited{Context: r.Context, visit: v}
	return v, v.handle, nil
}

// leave gives back what the call holds.
func (v *visit) leave() {
	if v.handle != nil {
		v.handle.end()
		v.handle = nil
	}
	v.Leave(v.outcome)
	v.from.visits.Put(v)
}

// class returns the class of a call.
func (i *Interceptor) class(r Request, stream bool) string {
	switch {
	case i.cfg.Class != nil:
		return i.cfg.Class(r)
	case !i.classify:
		return ""
	case stream:
		return Streams
	}
	return r.Method
}

// routed returns the context in which a call asks its limits. It has the route of the call if one
// limit has the calls of all classes, unless an outer interceptor has set a route.
func (i *Interceptor) routed(r Request, class string) context.Context {
	c := weir.ClassOf(r.Context)
	if i.cfg.Limiter == nil || c.Route != "" {
		return r.Context
	}
	c.Route = cmp.Or(class, r.Method)
	return weir.WithClass(r.Context, c)
}

// refuse returns the error for a refused call. The rule is the index of the one
// that refused, or -1.
func (i *Interceptor) refuse(ctx context.Context, rule int, err error) error {
	q := unnamed
	if rule >= 0 {
		q = i.quotas[rule]
	}
	var jitter time.Duration
	if i.cfg.RetryJitter > 0 {
		jitter = rand.N(i.cfg.RetryJitter)
	}
	return tell(ctx, q, err, jitter)
}

// visited is the context of a handler that may call Use.
type visited struct {
	context.Context

	mu    sync.Mutex // guards visit
	visit *visit     // nil when the handler has returned
}

// settle reports whether the handler has not returned.
func (c *visited) settle(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.visit == nil {
		return false
	}
	c.visit.Settle(n)
	return true
}

// end detaches the visit, which will be reused.
func (c *visited) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.visit = nil
}

type visitKey struct{}

func (c *visited) Value(key any) any {
	if key == (visitKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Use changes the cost of the call under ctx to n tokens for each rule, and gives
// back or charges the difference. It has no effect after the handler has returned.
// Use reports whether it has changed the cost, that is whether ctx belongs to an
// Interceptor with rules. It panics if n < 0.
func Use(ctx context.Context, n int) bool {
	if n < 0 {
		panic("grpclimit: Use of a negative cost")
	}
	found := false
	for ctx != nil {
		c, ok := ctx.Value(visitKey{}).(*visited)
		if !ok {
			break
		}
		if c.settle(n) {
			found = true
		}
		ctx = c.Context
	}
	return found
}
