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
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/classkey"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/settings"
)

// A limiter bounds the requests in flight of one class, or of several.
type limiter struct {
	*inflight.Limiter
	name string
	fair fairness

	served   atomic.Uint64 // requests that succeeded
	holding  atomic.Int64  // exchanges that hold a unit
	rejected atomic.Uint64 // requests, except in shadow mode
	fixed    atomic.Bool   // the limit is a number
	relief   relief

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

// newLimiter returns a limiter. An adaptive limit begins where that of old is, if old is not
// nil and has the same algorithm.
func newLimiter(name string, l limits, f fairness, old *limiter, trace func(inflight.Event)) (*limiter, error) {
	begin, now, first := l, l, 0
	if old != nil {
		if old.given == l {
			begin, now = old.now, old.now
		}
		begin.auto, first = old.keep(begin), old.State().Limit
	}
	algorithm, err := begin.algorithm(first)
	if err != nil {
		return nil, fmt.Errorf("the limit of %s: %w", name, err)
	}
	cfg := inflight.Config{
		Algorithm: algorithm, Queue: settings.OrNone(now.queue), MaxWait: settings.OrNone(time.Duration(now.maxWait)), Trace: trace,
		Weights: f.weights,
	}
	if f.text == "" {
		cfg.FairQueues = 1
	}
	in, err := inflight.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("the limit of %s: %w", name, err)
	}
	made := &limiter{Limiter: in, name: name, fair: f, given: l, now: now}
	made.fixed.Store(now.limit.Fixed())
	return made, nil
}

// keep returns the configuration of an adaptive limit that begins where the present one is,
// if that has the same algorithm.
func (l *limiter) keep(to limits) limit.Config {
	cfg := to.auto
	if to.limit == l.now.limit && !to.limit.Fixed() {
		cfg.Initial = max(l.State().Limit, cfg.Min, 1)
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
	var algorithm limit.Algorithm
	if to.limit != l.now.limit || to.auto != l.now.auto || to.slowStart != l.now.slowStart || !keep {
		begin, first := to, math.MaxInt
		if keep {
			begin.auto, first = l.keep(to), max(l.State().Limit, 1)
		}
		if algorithm, err = begin.algorithm(first); err != nil {
			return nil, fmt.Errorf("the limit of %s: %w", l.name, err)
		}
	}
	return func() {
		if algorithm != nil {
			l.SetAlgorithm(algorithm)
		}
		if to.queue != l.now.queue || to.maxWait != l.now.maxWait {
			l.SetQueue(settings.OrNone(to.queue), settings.OrNone(time.Duration(to.maxWait)))
		}
		l.now = to
		l.fixed.Store(to.limit.Fixed())
	}, nil
}

// reached reports whether the limit is reached, so that requests wait or are refused.
func (l *limiter) reached() bool {
	st := l.State()
	return st.Inflight >= st.Limit
}

// reached reports whether a limit of the class is reached.
func (c *class) reached() bool { return c.limiter.reached() || c.total != nil && c.total.reached() }

// usually returns the duration within which ordinary work ends.
func (l *limiter) usually() time.Duration { return longlived.Usual(l.Limiter) }

// permits are the units of a request: of its class and, if there is one, of the total.
type permits struct{ class, total weir.Permit }

// Move returns what ps held. It holds nothing then.
func (ps *permits) Move() permits { return permits{ps.class.Move(), ps.total.Move()} }

// Release, Report and Use do what they do for a weir.Permit.
func (ps *permits) Release(o weir.Outcome) {
	ps.total.Release(o)
	ps.class.Release(o)
}

func (ps *permits) Report(o weir.Outcome) {
	ps.total.Report(o)
	ps.class.Report(o)
}

func (ps *permits) Use(n int) {
	ps.total.Use(n)
	ps.class.Use(n)
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

// acquire waits for the units of a request of a route, which is empty if the limits have one route.
func (c *class) acquire(ctx context.Context, route string, ps *permits) error {
	if route == "" {
		return c.ask(ctx, ps)
	}
	in := routedPool.Get().(*routed)
	in.Context, in.class = ctx, weir.ClassOf(ctx)
	in.class.Route = route
	err := c.ask(in, ps)
	*in = routed{}
	routedPool.Put(in)
	return err
}

// ask waits for the units of a request.
func (c *class) ask(ctx context.Context, ps *permits) (err error) {
	if c.shadow {
		c.try(ctx, ps)
		return nil
	}
	if ps.class, err = c.limiter.acquire(ctx); err != nil || c.total == nil {
		return err
	}
	if ps.total, err = c.total.acquire(ctx); err != nil {
		ps.class.Release(weir.Ignored)
	}
	return err
}

// acquire waits for a unit.
func (l *limiter) acquire(ctx context.Context) (weir.Permit, error) {
	p, err := l.Acquire(ctx, 1)
	if err != nil && admission.Rejection(err) != nil {
		l.rejected.Add(1)
	}
	return p.Move(), err
}

// try takes the units of a request if they are free.
func (c *class) try(ctx context.Context, ps *permits) {
	var free bool
	if ps.class, free = c.limiter.TryAcquire(ctx, 1); free && c.total != nil {
		if ps.total, free = c.total.TryAcquire(ctx, 1); !free {
			ps.class.Release(weir.Ignored)
		}
	}
	if !free { // it would have waited, or been rejected
		c.counts.wouldReject[weir.OverLimit].Add(1)
	}
}

// limitChanged returns the function that counts and logs the changes of a limiter.
func (p *Proxy) limitChanged(class string) func(inflight.Event) {
	return func(e inflight.Event) {
		p.metrics.limitChanges.WithLabelValues(e.Cause.String()).Inc()
		p.log.Debug("limit changed", "class", class, "was", e.Was, "limit", e.Limit, "cause", e.Cause.String(),
			"inflight", e.State.Inflight, "waiting", e.Waiting, "evidence", e.Evidence)
	}
}
