// Package lease holds the concurrency limits of rules, and the leases that
// callers hold under them.
package lease

import (
	"cmp"
	"container/list"
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Limits are the concurrency limits of one rule: one for each bucket in use.
type Limits struct {
	Per config.Per // it does not change

	name     string // of the rule
	registry *Registry
	order    uint64 // in which leases under several rules are acquired, to avoid deadlocks

	held      atomic.Int64 // units
	waiting   atomic.Int64 // requests
	limit     atomic.Int64 // units of all buckets together
	granted   atomic.Uint64
	returned  atomic.Uint64
	expired   atomic.Uint64
	renewed   atomic.Uint64
	cancelled atomic.Uint64
	shadowed  atomic.Uint64
	refused   waiting.Refusals
	times     waiting.Histogram

	mu      sync.Mutex // guards what follows
	terms   *config.Concurrency
	rules   uint64        // the least Plan.rules of a request for leases
	closed  bool          // the rule is gone or grants no leases
	reopens time.Duration // when a recovery ends; 0 if none has begun
	buckets map[string]*bucket
	idle    list.List // of buckets that are not in use, the last used first
}

// maxIdle bounds, for each rule, the buckets that are kept when they are not in
// use: for the limit that they have found, or because abandoned work may go on.
const maxIdle = 1024

// A bucket has one limit.
type bucket struct {
	limits  *Limits
	name    string
	limiter *inflight.Limiter

	line   list.List    // of *waiter, by arrival; guarded by queue.mu
	queued atomic.Int64 // units that the line waits for; written under queue.mu

	// Guarded by Limits.mu.
	users   int           // leases, and requests for them
	adopted int           // units of leases that were adopted
	usual   time.Duration // smoothed duration of leases; 0 = unknown
	idle    *list.Element // nil if it is in use
}

// newLimits returns the limits of a rule. If terms is nil, it grants no leases.
func (g *Registry) newLimits(rule string, per config.Per, terms *config.Concurrency) *Limits {
	l := &Limits{
		Per: per, name: rule, registry: g, order: g.orders.Add(1), terms: terms,
		buckets: map[string]*bucket{},
	}
	l.Recover()
	return l
}

// Held returns the number of units held.
func (l *Limits) Held() int { return int(l.held.Load()) }

// take gives a lease its units of a bucket, if they are free and no request waits for them.
// If not, the caller must leave the bucket. It is nil if the rules are newer, or if leases
// are not granted yet: then recovers is the time until they are.
func (l *Limits) take(h *holding, u *Under, rules uint64) (b *bucket, ok bool, recovers time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rules < l.rules {
		return nil, false, 0
	}
	if recovers := max(l.recoversLocked(), l.awaitsLocked(h.slot)); recovers > 0 {
		return nil, false, recovers
	}
	b = l.enterLocked(u.Bucket)
	if b.queued.Load() > 0 {
		return b, false, 0
	}
	p, ok := b.limiter.TryAcquire(context.Background(), h.N)
	if ok {
		h.hold(b, &p, u.Shadow)
	}
	return b, ok, 0
}

func (l *Limits) enterLocked(name string) *bucket {
	b := l.buckets[name]
	if b == nil {
		b = l.addLocked(name, 0)
	}
	if b.idle != nil {
		l.idle.Remove(b.idle)
		b.idle = nil
	}
	b.users++
	return b
}

// addLocked adds a bucket. If its limit is auto, it starts from first.
func (l *Limits) addLocked(name string, first int) *bucket {
	cfg := inflight.Config{
		Algorithm: algorithm(l.terms, first), MaxWait: -1, Discipline: inflight.FIFO, WaitOnly: true, // the line has the bounds
		Trace: func(e inflight.Event) { l.limit.Add(int64(e.Limit - e.Was)) },
	}
	if l.terms.Limit == config.Auto {
		cfg.Observe = timeAll
	}
	limiter, err := inflight.New(cfg)
	if err != nil {
		panic("server: " + err.Error()) // config has checked the terms
	}
	b := &bucket{limits: l, name: strings.Clone(name), limiter: limiter}
	l.limit.Add(int64(limiter.State().Limit))
	l.buckets[b.name] = b
	return b
}

// timeAll lets a limiter that adapts time all work. Otherwise it would time only a part of
// the work that it admits while no request waits in it, although requests wait in the line.
func timeAll(context.Context, int, time.Duration, error) func(weir.Outcome) { return nil }

// leave ends the use of a bucket; took is how long a lease was held, 0 if none was.
func (l *Limits) leave(b *bucket, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(b, took)
}

func (l *Limits) leaveLocked(b *bucket, took time.Duration) {
	switch {
	case took <= 0:
	case b.usual == 0:
		b.usual = took
	default: // one slow lease counts as at most twice the usual
		b.usual += (min(took, 2*b.usual) - b.usual) / 8
	}
	if b.users--; b.users > 0 {
		return
	}
	if l.terms.Limit != config.Auto && b.limiter.State().Inflight == 0 {
		l.dropLocked(b)
		return
	}
	l.restLocked(b)
}

// restLocked keeps a bucket that is not in use, in place of the one that was used
// least recently.
func (l *Limits) restLocked(b *bucket) {
	b.idle = l.idle.PushFront(b)
	if l.idle.Len() > maxIdle {
		l.dropLocked(l.idle.Remove(l.idle.Back()).(*bucket))
	}
}

func (l *Limits) dropLocked(b *bucket) {
	delete(l.buckets, b.name)
	l.limit.Add(-int64(b.limiter.State().Limit))
}

// algorithm returns the algorithm that sets the limit. An auto limit starts from
// first, or from its default if first is 0.
func algorithm(c *config.Concurrency, first int) limit.Algorithm {
	if c.Limit != config.Auto {
		return limit.Fixed(int(c.Limit))
	}
	if first > 0 {
		first = min(max(first, c.Min), maxLimit(c))
	}
	auto, err := limit.NewAuto(limit.Config{Initial: first, Min: c.Min, Max: maxLimit(c)})
	if err != nil {
		panic("server: " + err.Error()) // config has checked the bounds
	}
	return auto
}

func maxLimit(c *config.Concurrency) int {
	if c.Limit != config.Auto {
		return int(c.Limit)
	}
	return cmp.Or(c.Max, 1000)
}

// concurrency returns the terms; nil if the rule has never granted leases.
func (l *Limits) concurrency() *config.Concurrency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms
}

// update changes the terms from a version of the rules on; with nil, the rule grants no
// leases any more. Leases that are held stay.
func (l *Limits) update(rules uint64, c *config.Concurrency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules, l.closed = rules, c == nil
	if l.closed {
		return
	}
	was := l.terms
	l.terms = c
	l.recoverLocked()
	if reflect.DeepEqual(was, c) {
		return
	}
	for _, b := range l.buckets { // there are none if was is nil
		if was.Limit != c.Limit || was.Min != c.Min || was.Max != c.Max {
			b.limiter.SetAlgorithm(algorithm(c, b.limiter.State().Limit))
		}
	}
}

// Stats counts the leases of a rule.
type Stats struct {
	Held, Waiting int // units; requests
	// Keys is the number of limits that are in use or remembered, Limit their sum in
	// units.
	Keys, Limit                int
	Granted, Returned, Expired uint64
	Renewed                    uint64
	Refused                    map[weir.Reason]uint64
	Cancelled                  uint64        // requests that left the queue or ran out of time
	Shadowed                   uint64        // requests that would have been refused, or have waited, but for the mode
	Waits                      waiting.Times // of requests that waited and were granted a lease
}

// Stats returns the counts.
func (l *Limits) Stats() Stats {
	st := Stats{
		Held: l.Held(), Waiting: int(l.waiting.Load()), Limit: int(l.limit.Load()),
		Granted: l.granted.Load(), Returned: l.returned.Load(), Expired: l.expired.Load(), Renewed: l.renewed.Load(),
		Refused: l.refused.Load(), Cancelled: l.cancelled.Load(), Shadowed: l.shadowed.Load(), Waits: l.times.Load(),
	}
	l.mu.Lock()
	st.Keys = len(l.buckets)
	l.mu.Unlock()
	return st
}

// state returns the state of a bucket in a slot under the terms c.
func (l *Limits) state(name string, slot uint16, c *config.Concurrency) *decider.LeaseState {
	q := &l.registry.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	l.mu.Lock()
	b, recovers := l.buckets[name], max(l.recoversLocked(), l.awaitsLocked(slot))
	l.mu.Unlock()
	if b == nil {
		return &decider.LeaseState{Limit: algorithm(c, 0).Limit(), Recovers: recovers}
	}
	st := b.limiter.State()
	return &decider.LeaseState{Limit: st.Limit, Inflight: st.Inflight, Waiting: b.line.Len(), Recovers: recovers}
}

// CountsOf returns the limits of a rule that count its leases which a store or an upstream has: those of the rule in force
// with its name.
func (g *Registry) CountsOf(set *rules.Set, r *rules.Rule) *Limits {
	if l := cmp.Or(g.Of(set, r), g.ByName()[r.Name]); l != nil {
		return l
	}
	return g.newLimits(r.Name, r.Per, r.Concurrency)
}

// Hold adds to the units held under a rule, for a lease that a store of shared limits has.
func (l *Limits) Hold(units int) { l.held.Add(int64(units)) }

// Granted counts such a lease.
func (l *Limits) Granted() { l.granted.Add(1) }

// Renewed counts a renewal of such a lease.
func (l *Limits) Renewed() { l.renewed.Add(1) }

// Returned counts the return of such a lease.
func (l *Limits) Returned() { l.returned.Add(1) }

// Refused counts a refusal of such a lease.
func (l *Limits) Refused(why weir.Reason) { l.refused.Add(why) }
