package grpclimit

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
)

// A visit is one call that was let in. It is used again for others.
type visit struct {
	admission.Visit[Request]
	from    *Interceptor
	outcome weir.Outcome
	handle  *visited // of its handler; nil if there are no rules
}

// enter asks for a call. The context is that of its handler; leave must follow
// unless there is an error.
func (i *Interceptor) enter(r Request, stream bool) (*visit, context.Context, error) {
	if i.cfg.Criticality != "" {
		r.Context = i.heed(r.Context)
	}
	v := i.visits.Get().(*visit)
	v.from, v.handle, v.outcome = i, nil, weir.Ignored // unless the handler returns
	if err := i.door.Enter(r.Context, r, i.class(r, stream), &v.Visit); err != nil {
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

// leave ends a visit, also one whose handler has panicked.
func (v *visit) leave() {
	if v.handle != nil {
		v.handle.end()
		v.handle = nil
	}
	v.Leave(v.outcome)
	v.from.visits.Put(v)
}

// class is the class of a call.
func (i *Interceptor) class(r Request, stream bool) string {
	switch {
	case i.auto && stream:
		return streams
	case i.cfg.Class != nil:
		return i.cfg.Class(r)
	case i.classify:
		return r.Method
	}
	return ""
}

// refuse tells a client why its call was not let in, and by which rule, if not
// -1.
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

// visited is the context of a handler that may Use.
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

// end lets go of the visit, which will be another's.
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

// Use says that the call under ctx costs n tokens of each rule it is under, and
// not what was taken when it came: what is too much is given back, what is too
// little charged. It is for the time until the handler has returned: later it does
// nothing. Use reports whether there is an Interceptor with rules behind ctx that
// took it in. It panics if n < 0.
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

// methods are those that are exempt.
type methods struct {
	exact    map[string]bool
	services []string // with a slash at both ends
}

func newMethods(list []string) methods {
	m := methods{exact: make(map[string]bool, len(list))}
	for _, name := range list {
		if strings.HasSuffix(name, "/") {
			m.services = append(m.services, name)
		} else {
			m.exact[name] = true
		}
	}
	return m
}

func (m *methods) has(method string) bool {
	for _, s := range m.services {
		if strings.HasPrefix(method, s) {
			return true
		}
	}
	return m.exact[method]
}
