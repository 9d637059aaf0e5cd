package limits

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// A pool is a limit of requests in flight, of all origins or of one, and the account of the forwards
// within it.
type pool struct {
	*inflight.Limiter
	fixed    *atomic.Bool  // the limit is a number
	served   atomic.Uint64 // requests that succeeded
	holding  atomic.Int64  // forwards that hold a unit
	rejected atomic.Uint64 // requests, except in shadow mode
	size     atomic.Int64  // the limit, of a pool of one origin
	relief   relief
}

// isUsedUp reports whether the limit is reached, so that requests wait or are refused.
func (p *pool) isUsedUp() bool {
	st := p.State()
	return st.Inflight >= st.Limit
}

// usualDuration returns the duration within which ordinary work ends.
func (p *pool) usualDuration() time.Duration { return longlived.Usual(p.Limiter) }

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

var errNoPlace = errors.New("there is no place at the origin")

// isPerOrigin reports whether each origin has its own pool in the limiter: if its limit is adaptive, and there are
// several origins. Otherwise, the limiter has one pool for all.
func (l *Limiter) isPerOrigin() bool { return l.at != nil && !l.fixed.Load() }

// pools returns the pools that are asked.
func (l *Limiter) pools() []*pool {
	if l.isPerOrigin() {
		return l.at
	}
	return []*pool{l.whole}
}

// Size implements balance.Sizes.
func (l *Limiter) Size(origin int) float64 { return float64(max(l.at[origin].size.Load(), 1)) }

// State returns the sum of the states of all pools. The limit is the sum over the pools in use.
func (l *Limiter) State() inflight.State {
	sum, _ := l.sumPools()
	return sum
}

// sumPools returns the State of all pools, and the number of those in use. In use is the whole pool or, with a limit for each
// origin, those of the origins that are not out. The limits of others do not count, but the requests that are still in them do.
func (l *Limiter) sumPools() (sum inflight.State, inUse int) {
	add := func(p *pool, used bool) {
		st := p.State()
		if used {
			sum.Limit += st.Limit
			inUse++
		}
		sum.Inflight += st.Inflight
		sum.Held += st.Held
		sum.Waiting += st.Waiting
	}
	perOrigin := l.isPerOrigin()
	add(l.whole, !perOrigin)
	for i, p := range l.at {
		add(p, perOrigin && !l.origins.IsOut(i))
	}
	return sum, inUse
}

// AddOriginLimits adds the limit of each origin, and its lower bound, to what is known of it, if
// each has one. The lock of the settings is held.
func (l *Limiter) AddOriginLimits(to []origins.Stats) {
	if l.isPerOrigin() {
		for i, at := range l.at {
			to[i].Limit += int(at.size.Load())
			to[i].MinLimit += max(l.now.Auto.Min, 1)
		}
	}
}

// MinLimit returns the lower bound of an adaptive limit. The lock of the settings is held.
func (l *Limiter) MinLimit() (n int, adaptive bool) {
	if l.fixed.Load() {
		return 0, false
	}
	_, used := l.sumPools()
	return used * max(l.now.Auto.Min, 1), true
}

// Patience returns the age of a request at which nearly all clients have left.
func (l *Limiter) Patience() time.Duration {
	return l.longestOf(func(p *pool) time.Duration { return p.Stats().Patience })
}

// Queue returns how many requests may wait in all pools. The lock of the settings is held.
func (l *Limiter) Queue() int { return l.now.Queue * len(l.pools()) }

// longestOf returns the longest duration that f returns for a pool that is asked.
func (l *Limiter) longestOf(f func(*pool) time.Duration) (longest time.Duration) {
	for _, p := range l.pools() {
		longest = max(longest, f(p))
	}
	return longest
}

// CountForwards returns the number of forwards that hold a unit.
func (l *Limiter) CountForwards() int {
	n := l.whole.holding.Load()
	for _, p := range l.at {
		n += p.holding.Load()
	}
	return int(n)
}

// CountRejected returns the number of requests that it has rejected.
func (l *Limiter) CountRejected() uint64 {
	n := l.whole.rejected.Load()
	for _, p := range l.at {
		n += p.rejected.Load()
	}
	return n
}
