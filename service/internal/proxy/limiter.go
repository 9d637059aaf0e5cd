package proxy

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/classkey"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/settings"
)

// A limiter bounds the requests in flight of one class, or of several. While the limit is adaptive and there are several
// origins, it is a limit for each of them.
type limiter struct {
	whole   *pool   // of all origins
	at      []*pool // of each origin; nil if there is only one
	name    string
	fair    fairness
	fixed   atomic.Bool // the limit is a number
	origins *origins.Set

	// Proxy.mu guards the fields below.
	given limits // by the Config or the file of rules
	now   limits // changed by Set
}

// limits are the settings of a limiter.
type limits struct {
	limit     Limit
	auto      limit.Config      // of an adaptive limit
	slowStart settings.Duration // idle time; 0: none
	queue     int               // 0: none waits
	maxWait   settings.Duration // 0: unbounded
}

// algorithm returns the algorithm that sets the limit. Its slow start begins at first, if
// that is not zero.
func (l *limits) algorithm(first int) (limit.Algorithm, error) {
	alg, err := l.limit.Algorithm(l.auto)
	if err != nil || l.slowStart == 0 {
		return alg, err
	}
	return limit.NewSlowStart(alg, limit.SlowStart{Idle: time.Duration(l.slowStart), First: first})
}

// A fairness says how tenants share a limit. Equal texts stand for equal weights.
type fairness struct {
	text    string // empty: tenants do not matter
	weights map[string]int
}

// newLimiter returns a limiter for some origins. An adaptive limit begins where that of old is, if old is not
// nil and has the same algorithm.
func newLimiter(name string, l limits, f fairness, old *limiter, to *origins.Set, trace func(inflight.Event)) (*limiter, error) {
	now := l
	if old != nil && old.given == l {
		now = old.now
	}
	made := &limiter{name: name, fair: f, origins: to, given: l, now: now}
	made.fixed.Store(now.limit.Fixed())
	var err error
	if made.whole, err = made.newPool(func(o *limiter) *pool { return o.whole }, old, trace); err != nil || to.Count() == 1 {
		return made, err
	}
	for i := range to.Count() {
		p, err := made.newPool(func(o *limiter) *pool { return o.at[i] }, old, trace)
		if err != nil {
			return nil, err
		}
		made.at = append(made.at, p)
	}
	return made, nil
}

// newPool returns a pool, which begins where that of old is.
func (l *limiter) newPool(of func(*limiter) *pool, old *limiter, trace func(inflight.Event)) (*pool, error) {
	begin, first := l.given, 0
	if old != nil {
		if old.given == l.given {
			begin = old.now
		}
		was := of(old).State().Limit
		begin.auto, first = old.keep(begin, was), was
	}
	algorithm, err := begin.algorithm(first)
	if err != nil {
		return nil, fmt.Errorf("the limit of %s: %w", l.name, err)
	}
	p := &pool{fixed: &l.fixed}
	cfg := inflight.Config{
		Algorithm: algorithm, Queue: settings.OrNone(l.now.queue), MaxWait: settings.OrNone(time.Duration(l.now.maxWait)), Weights: l.fair.weights,
		Trace: func(e inflight.Event) {
			p.size.Store(int64(e.State.Limit))
			trace(e)
		},
	}
	if l.fair.text == "" {
		cfg.FairQueues = 1
	}
	if p.Limiter, err = inflight.New(cfg); err != nil {
		return nil, fmt.Errorf("the limit of %s: %w", l.name, err)
	}
	p.size.Store(int64(p.State().Limit))
	return p, nil
}

// keep returns the configuration of an adaptive limit that begins where the present one is,
// if that has the same algorithm.
func (l *limiter) keep(to limits, now int) limit.Config {
	cfg := to.auto
	if to.limit == l.now.limit && !to.limit.Fixed() {
		cfg.Initial = max(now, cfg.Min, 1)
		if cfg.Max > 0 {
			cfg.Initial = min(cfg.Initial, cfg.Max)
		}
	}
	return cfg
}

// change returns a function that changes the settings. If the algorithm or its bounds
// differ, it starts again: at the present limit, if keep is set. Otherwise an operator has set the
// limit: it applies at once, without a slow start.
func (l *limiter) change(to limits, keep bool) (apply func(), err error) {
	pools := append([]*pool{l.whole}, l.at...)
	algorithms := make([]limit.Algorithm, len(pools))
	if to.limit != l.now.limit || to.auto != l.now.auto || to.slowStart != l.now.slowStart || !keep {
		for i, p := range pools {
			begin, first := to, math.MaxInt
			if keep {
				now := p.State().Limit
				begin.auto, first = l.keep(to, now), max(now, 1)
			}
			if algorithms[i], err = begin.algorithm(first); err != nil {
				return nil, fmt.Errorf("the limit of %s: %w", l.name, err)
			}
		}
	}
	return func() {
		for i, p := range pools {
			if algorithms[i] != nil {
				p.SetAlgorithm(algorithms[i])
			}
			if to.queue != l.now.queue || to.maxWait != l.now.maxWait {
				p.SetQueue(settings.OrNone(to.queue), settings.OrNone(time.Duration(to.maxWait)))
			}
		}
		l.now = to
		l.fixed.Store(to.limit.Fixed())
	}, nil
}

// A routed is the context in which a request of a route asks the limits. They do not keep it, so it is
// reused.
type routed struct {
	context.Context
	class weir.Class
}

func (c *routed) Value(key any) any {
	if key == (classkey.Key{}) {
		return &c.class
	}
	return c.Context.Value(key)
}

var routedPool = sync.Pool{New: func() any { return new(routed) }}

// acquire waits for the units of a request of a route, which is empty if the limits have one route. Avoid is an
// origin that it does not go to, or -1.
func (c *class) acquire(ctx context.Context, route string, avoid int, ps *permits) error {
	if route == "" {
		return c.ask(ctx, avoid, ps)
	}
	in := routedPool.Get().(*routed)
	in.Context, in.class = ctx, weir.ClassOf(ctx)
	in.class.Route = route
	err := c.ask(in, avoid, ps)
	*in = routed{}
	routedPool.Put(in)
	return err
}

// limitChanged returns the function that counts and logs the changes of a limiter.
func (p *Proxy) limitChanged(class string) func(inflight.Event) {
	return func(e inflight.Event) {
		p.metrics.limitChanges.WithLabelValues(e.Cause.String()).Inc()
		p.log.Debug("limit changed", "class", class, "was", e.Was, "limit", e.Limit, "cause", e.Cause.String(),
			"inflight", e.State.Inflight, "waiting", e.Waiting, "evidence", e.Evidence)
	}
}
