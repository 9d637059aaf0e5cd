package proxy

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/routecost"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

const (
	maxPattern = 64  // bytes of the pattern of one, which labels metrics
	defaultMax = 1e4 // of an automatic limit; a lower one is a bound of all requests
)

// A split finds the dear routes of the class default, and makes each a class with a limit of
// its own: one limit refuses as much of the cheap requests as of the dear ones.
type split struct {
	costs  routecost.Table
	on     atomic.Bool
	routes []string // the patterns of the routes; Proxy.mu guards it
}

// learn takes in how long the origin took for an answer, unless stuckNow has counted the exchange.
func (x *exchange) learn(now time.Duration, a answer) {
	if x.splits && a.resp != nil && a.resp.StatusCode < 400 && !x.isStuck() {
		x.cost(now)
	}
}

// cost takes in how long the exchange has held its unit.
func (x *exchange) cost(now time.Duration) {
	if !x.splits {
		return
	}
	if pattern := x.proxy.split.costs.Add(now, x.method, x.path, now-x.admitted); pattern != "" {
		x.proxy.splitOff(pattern)
	}
}

// splitOff makes a route a class.
func (p *Proxy) splitOff(pattern string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, pl := &p.split, p.plan.Load()
	if !s.on.Load() || len(s.routes) == routecost.MaxRoutes || len(pattern) > maxPattern || pl.class(pattern) != nil {
		return
	}
	before := s.routes
	s.routes = append(slices.Clip(before), pattern)
	if err := p.replan(); err != nil {
		s.routes = before
		p.log.Warn("a route gets no limit of its own", "class", pattern, "error", err)
		return
	}
	p.log.Info("a route has a limit of its own now: its requests take longer than the others", "class", pattern)
}

// resplit decides whether the settings of the class default allow limits of single routes. If
// they do not, there are none. Proxy.mu must be held.
func (p *Proxy) resplit() error {
	s, pl := &p.split, p.plan.Load()
	now := pl.limiters[proxyrule.DefaultClass].now
	on := p.cfg.SplitRoutes && now.limit == (Limit{}) && (now.auto.Max == 0 || now.auto.Max >= defaultMax) && pl.other.cache == nil
	s.on.Store(on)
	if on || len(s.routes) == 0 {
		return nil
	}
	s.routes = nil
	return p.replan()
}

// replan makes the plan again. Proxy.mu must be held.
func (p *Proxy) replan() error {
	pl := p.plan.Load()
	next, apply, err := p.newPlan(pl.rules, pl.ruled)
	if err == nil {
		p.use(next, apply)
	}
	return err
}
