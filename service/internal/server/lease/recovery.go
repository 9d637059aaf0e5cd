package lease

import (
	"cmp"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease/unknown"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// tokenLeap exceeds the number of leases that a process grants between two saves. Fencing
// tokens leap by it after a crash, so that none is granted twice.
const tokenLeap = 1 << 30

// Recover begins a recovery: after a crash, until unknown leases must have expired, the Registry grants
// no lease, and adopts the unknown leases that are renewed. longest has the longest times to live that the last process
// had saved, by rule. It must be called before leases are granted, and Limits.Recover
// after it.
func (g *Registry) Recover(longest map[string]time.Duration) {
	g.crash = unknown.NewCrash(g.clock.Now(), longest)
}

// Recovering reports whether there may be leases that are unknown.
func (g *Registry) Recovering() bool {
	now := g.clock.Now()
	return g.crash != nil && now < g.crash.Until() || g.expected.Any(now)
}

// MaxTTL returns the longest time to live of a lease under the terms.
func MaxTTL(c *config.Concurrency) time.Duration {
	return cmp.Or(c.MaxTTL, 10*min(cmp.Or(c.TTL, config.DefaultTTL), rules.MaxSpan/10))
}

// LongestTTL returns the longest time to live of leases under rules; 0 if none grants any.
func LongestTTL(all *config.Rules) (longest time.Duration) {
	for i := range all.Rules {
		if c := all.Rules[i].Concurrency; c != nil {
			longest = max(longest, MaxTTL(c))
		}
	}
	return longest
}

// Longest returns the longest time to live of leases, 0 if none is granted.
func (l *Limits) Longest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil {
		return 0
	}
	return MaxTTL(l.terms)
}

// Recover applies the recovery of the Registry, if there is one.
func (l *Limits) Recover() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recoverLocked()
}

func (l *Limits) recoverLocked() {
	if crash := l.registry.crash; crash != nil && l.reopens == 0 && l.terms != nil && !l.closed {
		l.reopens = crash.Reopens(l.name, MaxTTL(l.terms))
	}
}

// Recovers returns the time until leases are granted.
func (l *Limits) Recovers() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recoversLocked()
}

// recoversLocked returns the time until leases are granted.
func (l *Limits) recoversLocked() time.Duration {
	if l.reopens == 0 {
		return 0
	}
	return max(l.reopens-l.registry.clock.Now(), 0)
}

// rulesSum identifies the rules of a lease in its id. It does not depend on their order.
func rulesSum(under []Under) (sum uint64) {
	for _, u := range under {
		if !u.Shadow {
			sum += u.Limits.registry.secret.String(u.Limits.name)
		}
	}
	return sum
}

// unknown reports whether id is the id of a lease under these rules that the last
// process may have granted and not saved.
func (g *Registry) unknown(key, text string, under []Under) (id ID, n int, ok bool) {
	id, n, ok = parseID(text)
	if !ok || id != g.sealed(id.token(), n, rulesSum(under), key) {
		return id, n, false
	}
	slot, crashed := g.slotOf(key), g.crash != nil && g.crash.Has(id.token())
	for i := range under {
		l := under[i].Limits
		l.mu.Lock()
		ok = ok && (under[i].Shadow || crashed && l.recoversLocked() > 0 || l.awaitsLocked(slot) > 0)
		l.mu.Unlock()
	}
	return id, n, ok
}

// adopt renews a lease that the last process granted and did not save. The error is
// decider.ErrNoLease if it may have expired.
func (g *Registry) adopt(key, text string, ttl time.Duration, terms rules.LeaseTerms, under []Under) (decider.Lease, error) {
	id, n, ok := g.unknown(key, text, under)
	if !ok {
		return decider.Lease{}, decider.ErrNoLease
	}
	h := &holding{SavedLease: SavedLease{ID: id, Key: strings.Clone(key), N: n, Token: id.token(), Terms: terms}, slot: g.slotOf(key), restored: true}
	ttl = h.ttl(ttl)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	if held := g.held[id]; held != nil { // by a renewal at the same time
		return held.view(ttl), nil
	}
	if len(g.held) >= 2*g.max { // as many again as were saved
		return decider.Lease{}, decider.ErrNoLease
	}
	for i := range under {
		u := &under[i]
		if !u.Limits.adopt(h, u) && !u.Shadow {
			h.release(weir.Ignored, 0)
			return decider.Lease{}, decider.ErrNoLease
		}
	}
	h.since = now
	g.holdLocked(h, now+ttl)
	return h.view(ttl), nil
}

// adopt admits the units of a lease that is adopted. During a recovery no request waits for
// units, which forceLocked would let in.
func (l *Limits) adopt(h *holding, u *Under) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	awaits := l.awaitsLocked(h.slot) > 0
	if l.closed || l.terms == nil || l.recoversLocked() == 0 && !awaits {
		return false
	}
	b := l.enterLocked(u.Bucket)
	units := b.adopted
	if awaits { // all units in flight are of leases that were handed over or adopted
		units = b.limiter.State().Inflight
	}
	if units+h.N > maxLimit(l.terms) {
		l.leaveLocked(b, 0)
		return false
	}
	b.adopted += h.N
	l.renewed.Add(1)
	l.forceLocked(h, b, u.Shadow)
	return true
}

// ended reports whether a lease that is returned is one that the last process granted
// and did not save. Nothing of it is held.
func (g *Registry) ended(key, text string, under []Under) bool {
	_, _, ok := g.unknown(key, text, under)
	return ok
}
