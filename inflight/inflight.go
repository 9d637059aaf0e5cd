// Package inflight limits how much work is in flight at once: N in Little's
// law N = X·R. The limit is fixed, or finds itself by watching how the work
// goes (package limit). In front of it stands a bounded queue, which says who
// goes first (package gate).
//
//	lim, err := inflight.New(inflight.Config{})
//	...
//	err = weir.Do(ctx, lim, func(ctx context.Context) error { ... })
//
// Whose work it is, and how important, is in the context: weir.WithPriority,
// weir.WithTenant, weir.WithPartition. So is its deadline: who could not be
// done by it is refused, rather than let in to do it in vain.
//
// # Cancellation
//
// Acquire returns when its context ends; whoever gives up leaves the queue
// and holds nothing. A permit, however, is held until Release, whatever became
// of the caller: abandoned work still loads the resource. Release it when the
// work has ended. If its end cannot be seen, release it with weir.TimedOut or
// weir.Left (see weir.CallOutcomeOf): its units stay in flight for as long as
// successful work of its age lasts on average, and for twice the 99th percentile
// of successful work at most; eight times, while much is abandoned and nothing
// succeeds. weir.Do holds nothing after it has returned.
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

// Rejections carry no data of their own, so they are shared: to refuse
// allocates nothing.
var (
	errOverLimit = &weir.Rejection{Reason: weir.OverLimit}
	errQueueFull = &weir.Rejection{Reason: weir.QueueFull}
	errOverdue   = &weir.Rejection{Reason: weir.Overdue}
	errTooLate   = &weir.Rejection{Reason: weir.TooLate}
)

func rejection(why weir.Reason) error {
	switch why {
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

// A Limiter admits work up to its limit. It is a weir.Limiter, safe for
// concurrent use, and starts no goroutine of its own while nobody waits.
type Limiter struct {
	epoch   time.Time
	trace   func(Event)
	seed    maphash.Seed   // of the tenants' hashes
	fair    bool           // tenants matter
	weights map[string]int // of the tenants that have one
	plain   weir.Owner     // of permits of no partition
	owners  []weir.Owner   // of those of each partition, the first of none
	number  map[string]int // of each partition, from 1

	credit credit

	mu           sync.Mutex // guards what follows, and is taken by lock
	cfg          Config
	gate         *gate.Gate[chan answer]
	spare        chan answer     // made for one that did not wait
	timer        *time.Timer     // runs expire; nil until it is needed
	armed        bool            // the timer is running
	alarm        time.Duration   // and will fire at this instant
	lent         uint64          // the credit as it was lent
	phase        int             // admissions from credits
	timed        time.Duration   // when timed work last left
	lull, lulled time.Duration   // the last time that none did for long: from, to
	sparse       bool            // the algorithm does not need every sample
	explainer    limit.Explainer // the algorithm; nil if it explains nothing
}

// New returns a Limiter, or the error of cfg.Validate.
func New(cfg Config) (*Limiter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	alg := cfg.Algorithm
	if alg == nil {
		var err error
		if alg, err = limit.NewAuto(limit.AutoConfig{}); err != nil {
			return nil, err
		}
	}
	l := &Limiter{
		epoch: time.Now(), trace: cfg.Trace, seed: maphash.MakeSeed(),
		fair: cfg.FairQueues > 1, weights: maps.Clone(cfg.Weights), number: map[string]int{},
	}
	l.cfg = cfg
	l.gate = gate.New[chan answer](alg, cfg.Gate())
	l.setClock(alg)
	l.sparseLocked(alg)
	l.plain = &owner{l, 0}
	for i := range len(cfg.Partitions) + 1 {
		l.owners = append(l.owners, &owner{l, i})
	}
	for i, p := range cfg.Partitions {
		l.number[p.Name] = i + 1
	}
	l.mu.Lock()
	l.unlock()
	return l, nil
}

// TryAcquire returns a permit for n units if they are free and nobody waits;
// it never waits itself. It is work of no partition. It panics if n < 0.
func (l *Limiter) TryAcquire(n int) (weir.Permit, bool) {
	w, ok := l.credit.take(n)
	switch {
	case ok:
		at, inflight := l.time(w, n)
		return weir.NewPermit(&l.plain, weir.Grant{N: n, At: at, Note: note(inflight, 0)}), true
	case n >= 0 && w&crowded != 0, n > 0 && w&(shut|collect) == 0:
		l.credit.overLimit.Add(1)
		return weir.Permit{}, false
	}
	return l.try(n)
}

// try is what TryAcquire does if there is no credit.
func (l *Limiter) try(n int) (weir.Permit, bool) {
	l.lock()
	defer l.unlock()
	if verdict, _ := l.gate.Enter(gate.Request{N: n, NoWait: true}); verdict != gate.Admit {
		return weir.Permit{}, false
	}
	return l.permit(n, 0, answer{at: l.now(), inflight: l.gate.Inflight()}), true
}

// Acquire returns a permit for n units, after a wait in the queue if need be.
// The error is a *weir.Rejection (OverLimit, QueueFull, Overdue or TooLate)
// or, if ctx ended first, the context's own. It panics if n < 0.
func (l *Limiter) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := ctx.Err(); err != nil {
		return weir.Permit{}, err
	}
	w, ok := l.credit.take(n)
	if !ok {
		return l.ask(ctx, w, n)
	}
	at, inflight := l.time(w, n)
	return weir.NewPermit(&l.plain, weir.Grant{N: n, At: at, Note: note(inflight, 0)}), nil
}

// ask is what Acquire does if there is no credit.
func (l *Limiter) ask(ctx context.Context, word uint64, n int) (weir.Permit, error) {
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

// request is what ctx says about a request. It is asked outside the lock: a
// context is the caller's code.
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

// setClock tells a limit.Clocked algorithm the wall clock at l's epoch.
func (l *Limiter) setClock(alg limit.Algorithm) {
	if c, ok := alg.(limit.Clocked); ok {
		c.SetEpoch(time.Duration(l.epoch.UnixNano()))
	}
}

// SetLimit fixes the limit at n units; a negative n is taken as zero, which
// lets nobody in. Work in flight beyond a lower limit finishes.
func (l *Limiter) SetLimit(n int) { l.SetAlgorithm(limit.Fixed(n)) }

// SetAlgorithm puts the Limiter under another algorithm, which it owns from
// then on. It panics if alg is nil.
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

// eventLocked notes what happened to the limit, for the caller to tell outside
// the lock; nil if nothing did, or if nobody wants to know.
func (l *Limiter) eventLocked(was int, cause limit.Cause, s limit.Sample) *Event {
	if l.trace == nil || cause == limit.Kept {
		return nil
	}
	st := l.gate.Stats()
	e := &Event{At: s.End, Was: was, Limit: st.Limit, Cause: cause,
		Inflight: st.Inflight, Waiting: st.Waiting, Sample: s}
	if l.explainer != nil && cause != limit.Set {
		e.Evidence = l.explainer.Evidence()
	}
	return e
}

// SetQueue changes the bounds of the queue, with Config's meaning of zero and
// less. Those who wait keep their places; the new maxWait counts for them too.
func (l *Limiter) SetQueue(queue int, maxWait time.Duration) {
	l.lock()
	defer l.unlock()
	l.cfg.Queue, l.cfg.MaxWait = queue, maxWait
	l.gate.Configure(l.cfg.Gate())
	l.serveLocked(l.now())
}

// Queue returns the bounds of the queue, with Config's meaning of less than
// zero.
func (l *Limiter) Queue() (queue int, maxWait time.Duration) {
	l.lock()
	defer l.unlock()
	c := l.gate.Config()
	return c.Queue, c.MaxWait
}

// Stats returns the state and the counts since New.
func (l *Limiter) Stats() gate.Stats {
	l.lock()
	defer l.unlock()
	s := l.gate.Stats()
	s.OverLimit += l.credit.overLimit.Load()
	s.QueueFull += l.credit.queueFull.Load()
	return s
}
