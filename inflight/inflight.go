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
	"context"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limit"
)

// Rejections are shared, so that a refusal does not allocate.
var (
	errClosed    = &weir.Rejection{Reason: weir.Closed}
	errOverLimit = &weir.Rejection{Reason: weir.OverLimit}
	errQueueFull = &weir.Rejection{Reason: weir.QueueFull}
	errOverdue   = &weir.Rejection{Reason: weir.Overdue}
	errTooLate   = &weir.Rejection{Reason: weir.TooLate}
)

func rejection(why weir.Reason) error {
	switch why {
	case weir.Closed:
		return errClosed
	case weir.QueueFull:
		return errQueueFull
	case weir.Overdue:
		return errOverdue
	case weir.TooLate:
		return errTooLate
	default:
		return errOverLimit
	}
}

// A Limiter admits work up to its limit. It is a weir.Limiter and safe for
// concurrent use. While no request waits, it has no goroutine and no timer.
type Limiter struct {
	epoch   time.Time
	trace   func(Event)
	seed    maphash.Seed   // of the tenants' hashes
	fair    bool           // tenants matter
	weights map[string]int // of the tenants that have one
	plain   weir.Owner     // of permits of no partition
	owners  []weir.Owner   // of permits of each partition; the first is of no partition
	number  map[string]int // of each partition, from 1

	credit  credit // in the cache lines of what an admission reads
	observe func(ctx context.Context, n int, waited time.Duration, err error) func(weir.Outcome)

	mu           sync.Mutex // guards what follows, and is taken by lock
	cfg          Config
	gate         *gate.Gate[chan answer]
	closed       bool
	drained      chan struct{} // closed when nothing is in flight; nil if no Drain waits
	drainers     int           // calls of Drain that wait for drained
	spare        chan answer   // made for a request that did not wait
	timer        *time.Timer   // runs expire; nil until it is needed
	armed        bool          // the timer is running
	alarm        time.Duration // the instant at which it fires
	lent         uint64        // the credit as it was lent
	phase        int           // admissions from credits
	timed        time.Duration // when timed work last left
	lull, lulled time.Duration // the last long time in which none did: from, to
	sparse       bool          // the algorithm does not need every sample
	explainer    explainer     // the algorithm; nil if it explains nothing
}

// New returns a Limiter, or the error of cfg.Validate.
func New(cfg Config) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	alg := cfg.Algorithm
	if alg == nil {
		var err error
		if alg, err = limit.NewAuto(limit.Config{}); err != nil {
			return nil, err
		}
	}
	l := &Limiter{
		epoch: time.Now(), trace: cfg.Trace, observe: cfg.Observe, seed: maphash.MakeSeed(),
		fair: cfg.FairQueues > 1, weights: maps.Clone(cfg.Weights), number: map[string]int{},
	}
	cfg.Partitions = maps.Clone(cfg.Partitions)
	l.cfg = cfg
	l.gate = gate.New[chan answer](alg, cfg.rules())
	l.setClock(alg)
	l.sparseLocked(alg)
	l.plain = &owner{l, 0}
	for i := range len(cfg.Partitions) + 1 {
		l.owners = append(l.owners, &owner{l, i})
	}
	for i, name := range cfg.partitions() {
		l.number[name] = i + 1
	}
	l.mu.Lock()
	l.unlock()
	return l, nil
}

// TryAcquire returns a permit for n units if they are free and no request
// waits. It does not wait. Of ctx, only the class matters (weir.ClassOf), not
// whether it has ended. It panics if n < 0.
func (l *Limiter) TryAcquire(ctx context.Context, n int) (weir.Permit, bool) {
	w, ok := l.credit.take(n)
	if ok {
		at, inflight := l.time(w, n)
		return weir.NewPermit(&l.plain, weir.Grant{N: n, At: at, Note: note(inflight, 0)}), true
	}
	if n > 0 && (w&(shut|collect) == 0 || w&crowded != 0) {
		l.credit.overLimit.Add(1)
		return weir.Permit{}, false
	}
	return l.try(ctx, n)
}

// try is TryAcquire without a credit.
func (l *Limiter) try(ctx context.Context, n int) (weir.Permit, bool) {
	r := l.request(ctx, n)
	r.NoWait = true
	p, _, err := l.enter(r)
	if l.observe != nil {
		p = l.observed(ctx, n, 0, p, err)
	}
	return p, err == nil
}

// Acquire returns a permit for n units. If they are not free, it waits in the
// queue. The error is a *weir.Rejection (OverLimit, QueueFull, Overdue, TooLate
// or Closed) or, if ctx ended first, the context's own. It panics if n < 0.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := ctx.Err(); err != nil {
		return l.ended(ctx, n, err)
	}
	w, ok := l.credit.take(n)
	if !ok {
		return l.ask(ctx, w, n)
	}
	at, inflight := l.time(w, n)
	return weir.NewPermit(&l.plain, weir.Grant{N: n, At: at, Note: note(inflight, 0)}), nil
}

// ended is Acquire with a context that has ended.
func (l *Limiter) ended(ctx context.Context, n int, err error) (weir.Permit, error) {
	if l.observe != nil {
		l.observed(ctx, n, 0, weir.Permit{}, err)
	}
	return weir.Permit{}, err
}

// ask is Acquire without a credit.
func (l *Limiter) ask(ctx context.Context, word uint64, n int) (weir.Permit, error) {
	if l.observe == nil {
		return l.await(ctx, word, n)
	}
	start := l.now()
	p, err := l.await(ctx, word, n)
	return l.observed(ctx, n, l.now()-start, p, err), err
}

func (l *Limiter) await(ctx context.Context, word uint64, n int) (weir.Permit, error) {
	r := l.request(ctx, n)
	if word&full != 0 && n == 1 && r.Priority <= 0 { // no more than the limit, whatever that is
		l.credit.queueFull.Add(1)
		return weir.Permit{}, errQueueFull
	}
	p, w, err := l.enter(r)
	if w.answer == nil {
		return p, err
	}
	return l.wait(ctx, r, w)
}

// request describes a request by its context. It runs outside the lock, because
// a context is the caller's code.
func (l *Limiter) request(ctx context.Context, n int) gate.Request {
	c := weir.ClassOf(ctx)
	r := gate.Request{N: n, Priority: c.Priority, Partition: l.number[c.Partition]}
	if l.fair {
		r.Tenant = maphash.String(l.seed, c.Tenant)
		r.Weight = l.weights[c.Tenant]
	}
	if at, ok := ctx.Deadline(); ok {
		r.Deadline = max(at.Sub(l.epoch), 1) // 0 is none
	}
	return r
}

func (l *Limiter) permit(n, partition int, a answer) weir.Permit {
	return weir.NewPermit(&l.owners[partition], weir.Grant{N: n, At: a.at, Note: note(a.inflight, a.waited)})
}

func (l *Limiter) now() time.Duration { return time.Since(l.epoch) }

// setClock tells an algorithm that asks for it the wall clock at l's epoch.
func (l *Limiter) setClock(alg limit.Algorithm) {
	if c, ok := alg.(interface{ SetEpoch(time.Duration) }); ok {
		c.SetEpoch(time.Duration(l.epoch.UnixNano()))
	}
}

// SetAlgorithm replaces the algorithm, for example by limit.Fixed(n). The
// Limiter owns it from then on. If the limit falls below what is in flight,
// that work finishes. It panics if alg is nil.
func (l *Limiter) SetAlgorithm(alg limit.Algorithm) {
	if alg == nil {
		panic("inflight: SetAlgorithm(nil)")
	}
	if e := l.setAlgorithm(alg); e != nil {
		l.trace(*e)
	}
}

func (l *Limiter) setAlgorithm(alg limit.Algorithm) *Event {
	l.lock()
	defer l.unlock()
	was := l.gate.Limit()
	now := l.now()
	l.setClock(alg)
	l.gate.SetAlgorithm(alg)
	l.sparseLocked(alg)
	l.serveLocked(now)
	return l.eventLocked(was, limit.Set, limit.Sample{End: now})
}

// eventLocked describes a change of the limit, for the caller to pass to Trace
// outside the lock. It returns nil if the limit did not change, or without a Trace.
func (l *Limiter) eventLocked(was int, cause limit.Cause, s limit.Sample) *Event {
	if l.trace == nil || cause == limit.Kept {
		return nil
	}
	st := l.gate.Stats()
	e := &Event{Was: was, Limit: st.Limit, Cause: cause,
		Inflight: st.Inflight, Waiting: st.Waiting, Sample: s}
	if l.explainer != nil && cause != limit.Set {
		e.Evidence = l.explainer.Evidence()
	}
	return e
}

// SetQueue changes the bounds of the queue. Zero and negative values mean what
// they mean in Config. Waiting requests keep their places, and the new maxWait
// applies to them too.
func (l *Limiter) SetQueue(queue int, maxWait time.Duration) {
	l.lock()
	defer l.unlock()
	l.cfg.Queue, l.cfg.MaxWait = queue, maxWait
	l.gate.Configure(l.cfg.rules())
	l.serveLocked(l.now())
}
