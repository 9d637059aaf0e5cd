// Package inflight limits how much work is in flight at once, so that a
// service under overload keeps its throughput and its latency:
//
//	lim, err := inflight.New(inflight.Config{})
//	...
//	err = weir.Do(ctx, lim, func(ctx context.Context) error { ... })
//
// The limit is fixed, or finds itself from how the work goes (package limit).
// Requests beyond it wait in a bounded queue. Their class is in the context
// (weir.WithClass): the priority and the tenant order the queue, the partition
// guarantees a share of the limit. The context's deadline counts too: a
// request that cannot be done by it is rejected as TooLate.
//
// # Cancellation
//
// Acquire returns when its context ends; the request then leaves the queue.
// A permit is held until Release, whatever became of the caller, because
// abandoned work still loads the resource. Release the permit when the work
// has ended. If its end cannot be seen, call Permit.Abandon: the units stay in
// flight for as long as successful work of that age lasts on average, and at
// most for twice the 99th percentile of successful work (eight times, while
// much work is abandoned and none succeeds).
package inflight

import (
	"cmp"
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/internal/servicetime"
	"github.com/weir-go/weir/internal/waitq"
	"github.com/weir-go/weir/limit"
)

// rejections are shared, so that a refusal does not allocate.
var rejections = [...]*weir.Rejection{
	weir.OverLimit: {Reason: weir.OverLimit},
	weir.QueueFull: {Reason: weir.QueueFull},
	weir.Overdue:   {Reason: weir.Overdue},
	weir.TooLate:   {Reason: weir.TooLate},
	weir.Closed:    {Reason: weir.Closed},
}

// A Limiter admits work up to its limit. It is a weir.Limiter and safe for
// concurrent use. It starts no goroutine. It has a timer for waiting requests and for
// units of abandoned work.
type Limiter struct {
	epoch    time.Time
	trace    func(Event)
	seed     maphash.Seed                 // of the tenants' hashes
	fair     bool                         // tenants matter, if there are any
	waitOnly bool                         // deadlines bound the wait, not the work: see Config.WaitOnly
	weights  map[string]int               // of the tenants that have one
	plain    weir.Owner                   // of permits of no partition
	owners   []weir.Owner                 // of permits of each partition; the first is of no partition
	number   map[string]int               // of each partition, from 1
	routes   atomic.Pointer[routeNumbers] // nil before the first route

	credit  credit // in the cache lines of what an admission reads
	observe func(ctx context.Context, n int, waited time.Duration, err error) func(weir.Outcome)
	records *records // nil without Config.Recorder

	mu               sync.Mutex // guards what follows, and is taken by lock
	gate             *gate.Gate[chan answer]
	event            *Event           // for trace, by unlock
	drained          chan struct{}    // closed when nothing is in flight; nil if no Drain waits
	drainers         int              // calls of Drain that wait for drained
	spare            chan answer      // made for a request that did not wait
	timer            waitq.Timer      // runs expire
	lent             uint64           // the word of credit when it was last lent
	phase            int              // admissions from all credits: the next one counts on from it
	timed            time.Duration    // when timed work last left
	lullFrom, lullTo time.Duration    // the last time, longer than longAgo, in which no timed work left
	sparse           bool             // the algorithm does not need every sample
	controller       limit.Controller // the algorithm; nil if it is none

	waits [len(WaitBounds) + 1]uint64 // admitted after a wait, as in Stats; the first element is not used
}

// New returns a Limiter, or an error that names the first field with a bad value.
func New(cfg Config) (*Limiter, error) {
	names := slices.Sorted(maps.Keys(cfg.Partitions))
	rules, err := cfg.rules(names)
	if err != nil {
		return nil, err
	}
	alg := cfg.Algorithm
	if alg == nil {
		if alg, err = limit.NewAuto(limit.Config{}); err != nil {
			return nil, err
		}
	}
	l := &Limiter{
		epoch: time.Now(), trace: cfg.Trace, observe: cfg.Observe, seed: maphash.MakeSeed(),
		fair: cfg.FairQueues != 1, waitOnly: cfg.WaitOnly, weights: maps.Clone(cfg.Weights), number: map[string]int{},
		gate: gate.New[chan answer](alg, rules),
	}
	l.timer.Wake = l.expire
	if cfg.Recorder != nil {
		l.records = &records{cfg.Recorder, l.epoch.Sub(cfg.Recorder.Epoch())}
	}
	l.plain = &owner{l, 0}
	l.owners = []weir.Owner{l.plain}
	for i, name := range names {
		l.owners = append(l.owners, &owner{l, i + 1})
		l.number[name] = i + 1
	}
	l.mu.Lock() // no other goroutine has l yet: unlock lends the first credit
	defer l.unlock()
	l.adoptLocked(alg)
	return l, nil
}

// TryAcquire returns a permit for n units if they are free and no request
// waits. It does not wait. Of ctx, only the class matters (weir.ClassOf), not
// whether it has ended. It panics if n < 0.
func (l *Limiter) TryAcquire(ctx context.Context, n int) (weir.Permit, bool) {
	w, ok := l.credit.take(n)
	if ok {
		at, note := l.time(ctx, w, n)
		if l.records != nil {
			return l.recordCredit(ctx, w, weir.Grant{N: n, At: at, Note: note}), true
		}
		return weir.OwnedPermit(&l.plain, weir.Grant{N: n, At: at, Note: note}), true
	}
	if n > 0 && (w&(shut|collect) == 0 || w&crowded != 0) {
		l.credit.overLimit.Add(1)
		l.recordRefusal(ctx, l.arrival(), rejections[weir.OverLimit])
		return weir.Permit{}, false
	}
	return l.try(ctx, n)
}

// try is TryAcquire without a credit.
func (l *Limiter) try(ctx context.Context, n int) (weir.Permit, bool) {
	r := l.request(ctx, n)
	r.NoWait = true
	arrival := l.arrival()
	a, _, err := l.enter(r)
	p := l.admitted(ctx, arrival, &r, a, err)
	l.observed(ctx, n, 0, &p, err)
	return p.Move(), err == nil
}

// Acquire returns a permit for n units. If they are not free, it waits in the
// queue. The error is a *weir.Rejection (OverLimit, QueueFull, Overdue, TooLate
// or Closed) or, if ctx ended first, the context's own. It panics if n < 0.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := ctx.Err(); err != nil {
		var none weir.Permit
		l.recordRefusal(ctx, l.arrival(), err)
		l.observed(ctx, n, 0, &none, err)
		return weir.Permit{}, err
	}
	w, ok := l.credit.take(n)
	if !ok {
		return l.ask(ctx, w, n)
	}
	at, note := l.time(ctx, w, n)
	if l.records != nil {
		return l.recordCredit(ctx, w, weir.Grant{N: n, At: at, Note: note}), nil
	}
	return weir.OwnedPermit(&l.plain, weir.Grant{N: n, At: at, Note: note}), nil
}

// ask is Acquire without a credit.
func (l *Limiter) ask(ctx context.Context, word uint64, n int) (weir.Permit, error) {
	if l.observe == nil {
		return l.await(ctx, word, n)
	}
	start := l.now()
	p, err := l.await(ctx, word, n)
	l.observed(ctx, n, l.now()-start, &p, err)
	return p.Move(), err
}

func (l *Limiter) await(ctx context.Context, word uint64, n int) (weir.Permit, error) {
	r, arrival := l.request(ctx, n), l.arrival()
	if word&full != 0 && n == 1 && r.Priority <= 0 && r.Route == 0 { // no more than the limit, whatever that is
		l.credit.queueFull.Add(1)
		l.recordRefusal(ctx, arrival, rejections[weir.QueueFull])
		return weir.Permit{}, rejections[weir.QueueFull]
	}
	a, w, err := l.enter(r)
	if w.answer != nil {
		a, err = l.wait(ctx, r, w)
	}
	p := l.admitted(ctx, arrival, &r, a, err)
	return p.Move(), err
}

// request describes a request by its context. It runs outside the lock, because
// a context is the caller's code.
func (l *Limiter) request(ctx context.Context, n int) gate.Request {
	c := weir.ClassOf(ctx)
	r := gate.Request{N: n, Priority: c.Priority, Partition: l.number[c.Partition], Route: l.route(c.Route)}
	if l.fair && c.Tenant != "" {
		r.Tenant = maphash.String(l.seed, c.Tenant)
		r.Weight = l.weights[c.Tenant]
	}
	if at, ok := ctx.Deadline(); ok && !l.waitOnly {
		r.Deadline = max(at.Sub(l.epoch), 1) // 0 is none
	}
	return r
}

// route returns the number of a route. Beyond some hundreds, two routes may have the same, and then
// count as one.
func (l *Limiter) route(name string) int {
	if name == "" {
		return 0
	}
	numbers := l.routes.Load()
	if numbers == nil {
		l.routes.CompareAndSwap(nil, new(routeNumbers))
		numbers = l.routes.Load()
	}
	return numbers.of(maphash.String(l.seed, name))
}

// routeNumbers has the hash of each route at the place of its number. Nothing is ever removed.
type routeNumbers [servicetime.MaxRoutes]atomic.Uint64

// of returns the number of the route with a hash.
func (rs *routeNumbers) of(hash uint64) int {
	const places = 32 // in which a route looks for its own, as in any hash table with open addressing
	for i := range uint64(places) {
		n := (hash + i) % servicetime.MaxRoutes
		if at := rs[n].Load(); at == hash || at == 0 && rs[n].CompareAndSwap(0, hash) || rs[n].Load() == hash {
			return int(n) + 1
		}
	}
	return int(hash%servicetime.MaxRoutes) + 1
}

// admitted returns the permit of a request, if there was no error.
func (l *Limiter) admitted(ctx context.Context, arrival time.Duration, r *gate.Request, a answer, err error) weir.Permit {
	if err != nil {
		l.recordRefusal(ctx, arrival, err)
		return weir.Permit{}
	}
	p := weir.OwnedPermit(&l.owners[r.Partition], l.grant(r, a))
	if l.records != nil {
		l.recordAdmission(ctx, arrival, a, &p, r.N)
	}
	return p.Move()
}

func (l *Limiter) grant(r *gate.Request, a answer) weir.Grant {
	return weir.Grant{N: r.N, At: a.at, Note: note(a.inflight, a.waited, r)}
}

func (l *Limiter) now() time.Duration { return time.Since(l.epoch) }

// SetAlgorithm replaces the algorithm, for example by limit.Fixed(n). The
// Limiter owns it from then on. If the limit falls below what is in flight,
// that work finishes. It panics if alg is nil.
func (l *Limiter) SetAlgorithm(alg limit.Algorithm) {
	if alg == nil {
		panic("inflight: SetAlgorithm(nil)")
	}
	l.lock()
	defer l.unlock()
	was, now := l.gate.Limit(), l.now()
	l.adoptLocked(alg)
	l.serveLocked(now)
	l.eventLocked(was, limit.Set, limit.Sample{End: now})
}

// adoptLocked makes the gate use an algorithm, tells it the wall clock at l's epoch, and
// prepares the sampling.
func (l *Limiter) adoptLocked(alg limit.Algorithm) {
	l.controller, _ = alg.(limit.Controller)
	if l.controller != nil {
		l.controller.SetEpoch(time.Duration(l.epoch.UnixNano()))
	}
	l.gate.SetAlgorithm(alg)
	l.sparse = alg == limit.Fixed(alg.Limit()) || l.controller != nil && l.controller.Sparse()
	l.credit.mask.Store(0)
}

// eventLocked describes a change of the limit for Trace, if there is one.
func (l *Limiter) eventLocked(was int, cause limit.Cause, s limit.Sample) {
	if l.trace == nil || cause == limit.Kept {
		return
	}
	l.event = &Event{Was: was, Cause: cause, State: stateOf(l.gate.Stats()), Sample: s}
	if l.controller != nil && cause != limit.Set {
		l.event.Evidence = l.controller.Evidence()
	}
}

// SetQueue changes the bounds of the queue. Zero and negative values mean what
// they mean in Config. Waiting requests keep their places, and the new maxWait
// applies to them too.
func (l *Limiter) SetQueue(queue int, maxWait time.Duration) {
	l.lock()
	defer l.unlock()
	rules := l.gate.Config()
	rules.Queue, rules.MaxWait = cmp.Or(queue, DefaultQueue), cmp.Or(maxWait, DefaultMaxWait)
	l.gate.Configure(rules)
	l.serveLocked(l.now())
}
