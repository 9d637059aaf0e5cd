package limits

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/classkey"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
)

// A Gate admits requests to the origins, within the limit of their class and, if there is one, the total.
type Gate struct {
	Limiter *Limiter
	Total   *Limiter // of all classes; nil: none
	Origins *origins.Set
	Shadow  bool
	Counts  *tally.Counts
}

func (g *Gate) asked() askedLimits {
	return askedLimits{g.Limiter, g.Total, g.Limiter.isPerOrigin(), g.Total != nil && g.Total.isPerOrigin()}
}

// A routeContext is the context in which a request of a route asks the limits. They do not keep it, so it is
// reused.
type routeContext struct {
	context.Context
	class weir.Class
}

func (c *routeContext) Value(key any) any {
	if key == (classkey.Key{}) {
		return &c.class
	}
	return c.Context.Value(key)
}

var routeContexts = sync.Pool{New: func() any { return new(routeContext) }}

// Acquire waits for the units of a request of a route, which is empty if the limits have one route. Avoid is an
// origin that it does not go to, or -1.
func (g *Gate) Acquire(ctx context.Context, route string, avoid int, ps *Units) error {
	if route == "" {
		return g.acquireUnits(ctx, avoid, ps)
	}
	in := routeContexts.Get().(*routeContext)
	in.Context, in.class = ctx, weir.ClassOf(ctx)
	in.class.Route = route
	err := g.acquireUnits(in, avoid, ps)
	*in = routeContext{}
	routeContexts.Put(in)
	return err
}

// A takeFunc is how a request takes a unit: it waits for it, or not.
type takeFunc func(*pool, context.Context) (weir.Permit, error)

// askedLimits are the limiters that a request asks, and whether they have a pool for each origin.
type askedLimits struct {
	class, total         *Limiter // total may be nil
	classEach, totalEach bool
}

func (l *Limiter) pool(each bool, origin int) *pool {
	if each {
		return l.at[origin]
	}
	return l.whole
}

// takeClass takes the unit of the class of a request to an origin.
func (u *askedLimits) takeClass(ctx context.Context, ps *Units, origin int, how takeFunc) error {
	ps.classIn = u.class.pool(u.classEach, origin)
	permit, err := how(ps.classIn, ctx)
	ps.class = permit.Move()
	return err
}

// takeTotal takes the unit of the total, if there is one.
func (u *askedLimits) takeTotal(ctx context.Context, ps *Units, origin int, how takeFunc) error {
	if u.total == nil {
		return nil
	}
	ps.totalIn = u.total.pool(u.totalEach, origin)
	permit, err := how(ps.totalIn, ctx)
	ps.total = permit.Move()
	return err
}

// takeUnits takes the units of a request to an origin, but for that of the class, if it has that from a pool for all origins.
func (u *askedLimits) takeUnits(ctx context.Context, ps *Units, origin int, how takeFunc) error {
	if u.classEach {
		if err := u.takeClass(ctx, ps, origin, how); err != nil {
			return err
		}
	}
	err := u.takeTotal(ctx, ps, origin, how)
	if err != nil && u.classEach {
		ps.class.Release(weir.Ignored)
	}
	return err
}

// acquireUnits waits for the units of a request, in shadow mode without a wait, and chooses its origin if there are several. It
// chooses not avoid, unless that is -1.
func (g *Gate) acquireUnits(ctx context.Context, avoid int, ps *Units) (err error) {
	u, how := g.asked(), (*pool).acquire
	if g.Shadow {
		how = (*pool).acquireNow
	}
	if !u.classEach {
		err = u.takeClass(ctx, ps, -1, how)
	}
	switch {
	case err != nil:
	case u.classEach || u.totalEach:
		err = g.acquireAtOrigin(ctx, avoid, &u, how, ps)
	default:
		err = u.takeTotal(ctx, ps, -1, how)
	}
	if err == errNoPlace { // it would have waited, or been rejected
		g.Counts.CountWouldReject()
		ps.Release(weir.Ignored)
		err = nil
	}
	if err == nil && !ps.Place.Taken && g.Origins.Count() > 1 {
		err = g.Origins.PlaceAnywhere(&ps.Place, avoid)
	}
	if err != nil {
		ps.Release(weir.Ignored)
	} else if ps.classIn == nil {
		ps.classIn = g.Limiter.whole
	}
	return err
}

// acquireAtOrigin takes the units of a request at the origin where it fits best. If none has a place, the request waits at one. If that is
// out in the end, it goes to another one. Before it is rejected, it looks for a place once more.
func (g *Gate) acquireAtOrigin(ctx context.Context, avoid int, u *askedLimits, how takeFunc, ps *Units) (err error) {
	var sizes balance.Sizes = u.class
	if !u.classEach {
		sizes = u.total
	}
	s := g.Origins
	for moves, last := 0, false; ; moves++ {
		if found := g.acquireNow(ctx, avoid, u, sizes, ps); found != errNoPlace || g.Shadow {
			return found
		}
		if last {
			return err
		}
		origin, ok := s.ChooseQueue(avoid, sizes)
		if !ok { // all are held since then
			return s.PlaceAnywhere(&ps.Place, avoid)
		}
		err = u.takeUnits(ctx, ps, origin, how)
		last = moves == origins.MaxMoves || !s.IsOut(origin)
		switch {
		case err == nil && last:
			s.PlaceFromQueue(&ps.Place, origin)
			return nil
		case err == nil:
			u.releaseUnits(ps)
		}
		s.QuitQueue(origin)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// releaseUnits gives back what take has taken.
func (u *askedLimits) releaseUnits(ps *Units) {
	ps.total.Release(weir.Ignored)
	if u.classEach {
		ps.class.Release(weir.Ignored)
	}
}

// acquireNow gives a request a place and its units at the better one of two random origins, or at any that has them
// now. A request that tries an origin which is out goes there also without units.
func (g *Gate) acquireNow(ctx context.Context, avoid int, u *askedLimits, sizes balance.Sizes, ps *Units) error {
	s, random := g.Origins, rand.Uint64()
	if err := s.Choose(random, avoid, sizes, &ps.Place); err != nil {
		if avoid < 0 {
			return nil // Proxy.begin finds the pause
		}
		return err
	}
	chosen := ps.Place.Origin()
	if err := u.takeUnits(ctx, ps, chosen, (*pool).acquireNow); err == nil || ps.Place.IsTrial() {
		return nil
	}
	s.Withdraw(&ps.Place)
	for i := range min(s.Count(), mostTries) {
		i = (int(random>>1)%s.Count() + i) % s.Count()
		if i == avoid || i == chosen || u.takeUnits(ctx, ps, i, (*pool).acquireNow) != nil {
			continue
		}
		if s.PlaceAt(&ps.Place, i) {
			return nil
		}
		u.releaseUnits(ps)
	}
	return errNoPlace
}

// mostTries bounds the origins that are asked for a place without a wait.
const mostTries = 32
