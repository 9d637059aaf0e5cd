// Package lease holds the concurrency limits of rules, and the leases that
// callers hold under them.
package lease

import (
	"cmp"
	"container/list"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Limits are the concurrency limits of one rule: one for each bucket in use.
type Limits struct {
	Per config.Per // it does not change

	name     string // of the rule
	registry *Registry
	room     *waiting.Room
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
	rules   uint64        // the least Wait.Rules of a request that may begin to wait
	closed  bool          // the rule is gone or grants no leases
	reopens time.Duration // when a recovery ends; 0 if none has begun
	buckets map[string]*bucket
	idle    list.List // of buckets that are not in use, the last used first
	waiters map[*waiter]struct{}
}

// maxIdle bounds, for each rule, the buckets that are kept when they are not in
// use: for the limit that they have found, or because abandoned work may go on.
const maxIdle = 1024

// A bucket has one limit.
type bucket struct {
	limits  *Limits
	name    string
	limiter *inflight.Limiter

	// Guarded by Limits.mu.
	users   int           // leases, and requests for them
	adopted int           // units of leases that were adopted
	queued  int           // units that requests wait for
	usual   time.Duration // smoothed duration of leases; 0 = unknown
	idle    *list.Element // nil if it is in use
}

// NewLimits returns the limits of a rule. If terms is nil, it grants no leases.
func (g *Registry) NewLimits(rule string, per config.Per, terms *config.Concurrency) *Limits {
	l := &Limits{
		Per: per, name: rule, registry: g, room: g.room, order: g.orders.Add(1), terms: terms,
		buckets: map[string]*bucket{}, waiters: map[*waiter]struct{}{},
	}
	l.Recover()
	return l
}

// Held returns the number of units held.
func (l *Limits) Held() int { return int(l.held.Load()) }

// enter returns a bucket, which the caller must leave. It returns nil if the rules
// have changed, or if leases are not granted yet: then recovers is the time until they
// are.
func (l *Limits) enter(name string) (b *bucket, recovers time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.terms == nil {
		return nil, 0
	}
	if recovers := l.recoversLocked(); recovers > 0 {
		return nil, recovers
	}
	return l.enterLocked(name), 0
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
	queue, maxWait := queueOf(l.terms)
	limiter, err := inflight.New(inflight.Config{
		Algorithm: algorithm(l.terms, first), Queue: queue, MaxWait: maxWait, Discipline: inflight.FIFO,
		Trace: func(e inflight.Event) { l.limit.Add(int64(e.Limit - e.Was)) },
	})
	if err != nil {
		panic("server: " + err.Error()) // config has checked the terms
	}
	b := &bucket{limits: l, name: strings.Clone(name), limiter: limiter}
	l.limit.Add(int64(limiter.State().Limit))
	l.buckets[b.name] = b
	return b
}

// leave ends an enter; took is how long a lease was held, 0 if none was.
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

// queueOf returns the bounds of the queue, in the terms of package inflight.
func queueOf(c *config.Concurrency) (queue int, maxWait time.Duration) {
	return cmp.Or(config.QueueSize(c.Queue), -1), cmp.Or(c.MaxWait, -1)
}

// Update changes the terms; with nil, the rule grants no leases any more. Leases
// that are held stay.
func (l *Limits) Update(c *config.Concurrency) {
	if c == nil {
		l.Dismiss(waiting.ErrMoved)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.terms
	l.terms, l.closed = c, false
	l.recoverLocked()
	if reflect.DeepEqual(was, c) {
		return
	}
	for _, b := range l.buckets { // there are none if was is nil
		if was.Limit != c.Limit || was.Min != c.Min || was.Max != c.Max {
			b.limiter.SetAlgorithm(algorithm(c, b.limiter.State().Limit))
		}
		b.limiter.SetQueue(queueOf(c))
	}
}

// Move ends, with waiting.ErrMoved, the waits of requests for keys that do not stay under
// their rules. So end waits that begin later by rules before a version.
func (l *Limits) Move(rules uint64, stays func(key string) bool) {
	l.mu.Lock()
	l.rules = rules
	all := slices.SortedFunc(maps.Keys(l.waiters), func(a, b *waiter) int { return cmp.Compare(a.arrival, b.arrival) })
	l.mu.Unlock()
	for _, w := range all {
		if !stays(w.key) {
			w.end(waiting.ErrMoved)
		}
	}
}

// Same reports whether leases under a and b need units of the same limits.
func Same(a, b []Under) bool {
	slices.SortFunc(a, byOrder)
	slices.SortFunc(b, byOrder)
	return slices.Equal(a, b)
}

// Dismiss ends all waits. With waiting.ErrMoved, it also ends the granting of
// leases until Update.
func (l *Limits) Dismiss(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = l.closed || why == waiting.ErrMoved
	for w := range l.waiters {
		w.end(why)
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

// State returns the state of a bucket under the terms c; nil if that is nil.
func (l *Limits) State(name string, c *config.Concurrency) *decider.LeaseState {
	if c == nil {
		return nil
	}
	l.mu.Lock()
	b, recovers := l.buckets[name], l.recoversLocked()
	l.mu.Unlock()
	if b == nil {
		return &decider.LeaseState{Limit: algorithm(c, 0).Limit(), Recovers: recovers}
	}
	st := b.limiter.State()
	return &decider.LeaseState{Limit: st.Limit, Inflight: st.Inflight, Waiting: st.Waiting, Recovers: recovers}
}
