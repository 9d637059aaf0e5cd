package httpcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/observe"
)

// A failure is a response of the handler that is an error; it is sent if there is
// nothing better. If it may be kept, Cache.errors holds the response, so that its
// memory is counted.
type failure struct {
	status  int
	resp    *response // for other requests, unless Cache.errors holds it
	mark    *mark     // if not nil, only for requests with the same variant
	variant key
	only    bool // it is for one client only, and not kept; resp is nil
}

func (f *failure) Error() string { return fmt.Sprint("httpcache: the handler answered ", f.status) }

// Is makes 429 and 503 rejections.
func (f *failure) Is(target error) bool {
	return target == weir.ErrRejected &&
		(f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable)
}

// keeps reports whether an error is kept by its key.
func keeps(err error) bool {
	if _, panicked := errors.AsType[*flight.PanicError](err); panicked || err == flight.ErrGoexit {
		return false
	}
	f, ok := errors.AsType[*failure](err)
	return !ok || f.mark == nil && !f.only
}

// shared returns the response of a failure if l's request may get it, or nil.
func (l *lookup) shared(f *failure) *response {
	c := l.h.cache
	switch {
	case f.mark != nil && c.variant(l.base, f.mark, l.r) != f.variant:
		return nil
	case f.resp == nil && c.errors != nil:
		resp, _ := c.errors.Peek(f)
		return resp
	}
	return f.resp
}

// fill runs the handler and returns the value to keep: its response, or a mark. A
// response that only this client may get is in own.
func (l *lookup) fill(ctx context.Context, _ key) (value, error) {
	l.copied.Do(l.copy)
	resp, err := l.run(ctx)
	if err != nil {
		l.own.Store(&result{err: err})
		return value{}, err
	}
	if resp == nil {
		return value{mark: passing}, nil
	}
	return l.judge(resp)
}

// run returns the handler's response, or neither response nor error if the handler
// must run past the cache. The handler runs on another goroutine: if its response
// is refused, no request waits for its end, but it holds its permit until then.
func (l *lookup) run(ctx context.Context) (*response, error) {
	c := l.h.cache
	permit, err := c.limiter(l.limited).Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	b := newBuffer(l.r.Method == http.MethodHead, c.cfg.MaxBody)
	ended := make(chan error, 1)
	go b.serve(l.h.next, l.inner.WithContext(inner), func(err error) {
		outcome := weir.Ignored
		switch err {
		case nil:
			outcome = observe.Outcome(ctx, b.status)
		case errBroken:
			outcome = observe.Outcome(ctx, 0)
		}
		permit.Release(outcome)
		ended <- err
	})
	select {
	case <-b.refusal:
		return nil, nil
	case err = <-ended: // also if ctx has ended: the next run must begin later
	}
	switch {
	case err == errRefused:
		return nil, nil
	case (err == nil || err == errBroken) && ctx.Err() != nil: // the response may be incomplete
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	return b.response(), nil
}

// judge decides which clients may get a response, and for how long.
func (l *lookup) judge(resp *response) (value, error) {
	c := l.h.cache
	d := parseDirectives(resp.header["Cache-Control"])
	names := canonical(resp.header["Vary"])
	fresh := resp.freshness(d, c.cfg.DefaultTTL)
	shared := len(resp.header["Set-Cookie"]) == 0 && !d.private && !d.noStore &&
		!slices.Contains(names, "*") && (c.traits(l.inner)&credentials == 0 || d.authorized && fresh > 0)
	known := l.mark.covers(names)
	if resp.blames() {
		f := &failure{status: resp.status, only: true}
		l.own.Store(&result{resp: resp, err: f, only: true})
		return value{}, f
	}
	if resp.failed() {
		f := &failure{status: resp.status}
		resp.ttl = c.cfg.ErrorTTL
		switch {
		case shared && c.errors != nil:
			c.errors.Set(f, resp)
		case shared:
			f.resp = resp
		}
		if !known {
			f.mark = &mark{names: names}
			f.variant = c.variant(l.base, f.mark, l.inner)
		}
		l.own.Store(&result{resp: resp, err: f, shared: shared})
		return value{}, f
	}
	l.own.Store(&result{resp: resp})
	if !shared || !resp.shareable() {
		return value{mark: passing}, nil
	}
	resp.strict = d.strict()
	resp.ttl = fresh - time.Duration(c.cfg.Jitter*rand.Float64()*float64(fresh))
	if !known {
		return value{mark: c.learn(l, names, resp)}, nil
	}
	resp.kept.Store(resp.ttl > 0)
	return value{resp: resp}, nil
}

// learn records that the responses for a base vary by more headers than was
// known, and keeps a response under its new key. If anything was deleted since
// the lookup began, it may have been this response: then it is not kept.
func (c *Cache) learn(l *lookup, names []string, resp *response) *mark {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, _ := c.answers.Peek(l.base)
	for _, m := range []*mark{l.mark, old.mark} {
		if m != nil {
			names = append(names, m.names...)
		}
	}
	m := old.mark
	if m == nil || !m.covers(names) {
		slices.Sort(names)
		c.salt++
		m = &mark{names: slices.Clone(slices.Compact(names)), salt: c.salt, base: l.base}
	}
	if c.epoch.Load() != l.epoch {
		return m
	}
	if resp.ttl > 0 { // first, so that a request that finds the mark finds it
		resp.kept.Store(true)
		c.answers.Set(c.variant(l.base, m, l.inner), value{resp: resp})
	}
	if m != old.mark {
		c.answers.Set(l.base, value{mark: m})
	}
	return m
}

// covers reports whether a mark includes all the names.
func (m *mark) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return m == nil || !slices.Contains(m.names, name) })
}
