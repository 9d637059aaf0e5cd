package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// A pool is a limit of requests in flight, of all origins or of one, and the account of the exchanges
// within it.
type pool struct {
	*inflight.Limiter
	fixed    *atomic.Bool  // the limit is a number
	served   atomic.Uint64 // requests that succeeded
	holding  atomic.Int64  // exchanges that hold a unit
	rejected atomic.Uint64 // requests, except in shadow mode
	size     atomic.Int64  // the limit, of a pool of one origin
	relief   relief
}

// reached reports whether the limit is reached, so that requests wait or are refused.
func (p *pool) reached() bool {
	st := p.State()
	return st.Inflight >= st.Limit
}

// usually returns the duration within which ordinary work ends.
func (p *pool) usually() time.Duration { return longlived.Usual(p.Limiter) }

// learned returns the upper bound of the duration of ordinary work; 0 if it is not known.
func (p *pool) learned() time.Duration { return p.Usual() }

// acquire waits for a unit.
func (p *pool) acquire(ctx context.Context) (weir.Permit, error) {
	permit, err := p.Acquire(ctx, 1)
	if err != nil && admission.Rejection(err) != nil {
		p.rejected.Add(1)
	}
	return permit.Move(), err
}

// acquireNow takes a unit, or returns the rejection of a full limit.
func (p *pool) acquireNow(ctx context.Context) (weir.Permit, error) {
	if permit, ok := p.TryAcquire(ctx, 1); ok {
		return permit.Move(), nil
	}
	return weir.Permit{}, errNoPlace
}

var (
	errNoPlace = errors.New("there is no place at the origin")
)

// each reports whether each origin has a pool of its own in the limiter: if its limit is adaptive, and there are
// several origins. Otherwise, the limiter has one pool for all.
func (l *limiter) each() bool { return l.at != nil && !l.fixed.Load() }

// pools returns the pools that are asked.
func (l *limiter) pools() []*pool {
	if l.each() {
		return l.at
	}
	return []*pool{l.whole}
}

// Size implements balance.Sizes.
func (l *limiter) Size(origin int) float64 { return float64(max(l.at[origin].size.Load(), 1)) }

// State returns the sum of the states of all pools. The limit is the sum over the pools in use.
func (l *limiter) State() inflight.State {
	sum, _ := l.sum()
	return sum
}

// sum returns the State, and the number of pools in use. Those of origins that are out are not.
func (l *limiter) sum() (sum inflight.State, used int) {
	add := func(p *pool, use bool) {
		st := p.State()
		if use {
			sum.Limit += st.Limit
			used++
		}
		sum.Inflight += st.Inflight
		sum.Held += st.Held
		sum.Waiting += st.Waiting
	}
	each := l.each()
	add(l.whole, !each)
	for i, p := range l.at {
		add(p, each && !l.origins.IsOut(i))
	}
	return sum, used
}

// queue returns how many requests may wait in all pools. Proxy.mu is held.
func (l *limiter) queue() int { return l.now.queue * len(l.pools()) }

// most returns the longest duration that f returns for a pool that is asked.
func (l *limiter) most(f func(*pool) time.Duration) (longest time.Duration) {
	for _, p := range l.pools() {
		longest = max(longest, f(p))
	}
	return longest
}

// exchanges returns the number of exchanges that hold a unit.
func (l *limiter) exchanges() int {
	n := l.whole.holding.Load()
	for _, p := range l.at {
		n += p.holding.Load()
	}
	return int(n)
}

// refused returns the number of requests that it has rejected.
func (l *limiter) refused() uint64 {
	n := l.whole.rejected.Load()
	for _, p := range l.at {
		n += p.rejected.Load()
	}
	return n
}

// A permits has the units that a request holds, of its class and, if there is one, of the total, and its place at an origin.
type permits struct {
	class, total     weir.Permit
	classIn, totalIn *pool // of the units; totalIn is nil without a total
	place            origins.Place
}

// Move returns what ps held. It holds nothing then.
func (ps *permits) Move() permits {
	at := ps.place
	ps.place = origins.Place{}
	return permits{ps.class.Move(), ps.total.Move(), ps.classIn, ps.totalIn, at}
}

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

// reached reports whether a limit of the request is reached.
func (ps *permits) reached() bool {
	return ps.classIn.reached() || ps.totalIn != nil && ps.totalIn.reached()
}

// relieves reports whether the exchange is to leave a limit by relief.
func (ps *permits) relieves(now time.Duration) bool {
	return ps.classIn.relieve(now) || ps.totalIn != nil && ps.totalIn.relieve(now)
}

// A way is how a request takes a unit: it waits for it, or not.
type way func(*pool, context.Context) (weir.Permit, error)

// units are the limiters that a request asks, and whether they have a pool for each origin.
type units struct {
	class, total         *limiter // total may be nil
	classEach, totalEach bool
}

func (c *class) units() units {
	return units{c.limiter, c.total, c.limiter.each(), c.total != nil && c.total.each()}
}

func (l *limiter) pool(each bool, origin int) *pool {
	if each {
		return l.at[origin]
	}
	return l.whole
}

// takeClass takes the unit of the class of a request to an origin.
func (u *units) takeClass(ctx context.Context, ps *permits, origin int, how way) error {
	ps.classIn = u.class.pool(u.classEach, origin)
	permit, err := how(ps.classIn, ctx)
	ps.class = permit.Move()
	return err
}

// takeTotal takes the unit of the total, if there is one.
func (u *units) takeTotal(ctx context.Context, ps *permits, origin int, how way) error {
	if u.total == nil {
		return nil
	}
	ps.totalIn = u.total.pool(u.totalEach, origin)
	permit, err := how(ps.totalIn, ctx)
	ps.total = permit.Move()
	return err
}

// take takes the units of a request to an origin, but for that of the class, if it has that from a pool for all origins.
func (u *units) take(ctx context.Context, ps *permits, origin int, how way) error {
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

// ask waits for the units of a request, in shadow mode without a wait, and chooses its origin if there are several. It
// chooses not avoid, unless that is -1.
func (c *class) ask(ctx context.Context, avoid int, ps *permits) (err error) {
	u, how := c.units(), (*pool).acquire
	if c.shadow {
		how = (*pool).acquireNow
	}
	if !u.classEach {
		err = u.takeClass(ctx, ps, -1, how)
	}
	switch {
	case err != nil:
	case u.classEach || u.totalEach:
		err = c.spread(ctx, avoid, &u, how, ps)
	default:
		err = u.takeTotal(ctx, ps, -1, how)
	}
	if err == errNoPlace { // it would have waited, or been rejected
		c.counts.wouldReject[weir.OverLimit].Add(1)
		ps.Release(weir.Ignored)
		err = nil
	}
	if err == nil && !ps.place.Taken && c.origins.Count() > 1 {
		err = c.origins.PlaceAnywhere(&ps.place, avoid)
	}
	if err != nil {
		ps.Release(weir.Ignored)
	}
	return err
}

// spread takes the units of a request at the origin where it fits best. If none has a place, the request waits at one. If that is
// out in the end, it goes to another one. Before it is rejected, it looks for a place once more.
func (c *class) spread(ctx context.Context, avoid int, u *units, how way, ps *permits) (err error) {
	var sizes balance.Sizes = u.class
	if !u.classEach {
		sizes = u.total
	}
	s := c.origins
	for moves, last := 0, false; ; moves++ {
		if found := c.placeAt(ctx, avoid, u, sizes, ps); found != errNoPlace || c.shadow {
			return found
		}
		if last {
			return err
		}
		origin, ok := s.ChooseQueue(avoid, sizes)
		if !ok { // all are held since then
			return s.PlaceAnywhere(&ps.place, avoid)
		}
		err = u.take(ctx, ps, origin, how)
		last = moves == maxMoves || !s.IsOut(origin)
		switch {
		case err == nil && last:
			s.PlaceFromQueue(&ps.place, origin)
			return nil
		case err == nil:
			u.release(ps)
		}
		s.QuitQueue(origin)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// release gives back what take has taken.
func (u *units) release(ps *permits) {
	ps.total.Release(weir.Ignored)
	if u.classEach {
		ps.class.Release(weir.Ignored)
	}
}

// placeAt gives a request a place and its units at the better one of two random origins, or at any that has them
// now. A request that tries an origin which is out goes there also without units.
func (c *class) placeAt(ctx context.Context, avoid int, u *units, sizes balance.Sizes, ps *permits) error {
	s, random := c.origins, rand.Uint64()
	if err := s.Choose(random, avoid, sizes, &ps.place); err != nil {
		if avoid < 0 {
			return nil // Proxy.begin finds the pause
		}
		return err
	}
	chosen := ps.place.Origin()
	if err := u.take(ctx, ps, chosen, (*pool).acquireNow); err == nil || ps.place.IsTrial() {
		return nil
	}
	s.Withdraw(&ps.place)
	for i := range min(s.Count(), mostTries) {
		i = (int(random>>1)%s.Count() + i) % s.Count()
		if i == avoid || i == chosen || u.take(ctx, ps, i, (*pool).acquireNow) != nil {
			continue
		}
		if s.PlaceAt(&ps.place, i) {
			return nil
		}
		u.release(ps)
	}
	return errNoPlace
}

// mostTries bounds the origins that are asked for a place without a wait.
const mostTries = 32
