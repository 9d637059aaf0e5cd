package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
)

// A Lease is units of a key that are held, across processes, until they are
// returned or the lease runs out.
type Lease struct {
	ID  string // 32 hexadecimal digits that nobody can guess
	Key string
	N   int // units
	// Token goes up with every lease that a Server grants: whoever guards a resource
	// can refuse a holder whose token is less than one it has seen (a fencing token).
	// It begins with the clock, and stays below 2⁵³ until 2242: so, as long as the
	// clock is not set back, it goes up over restarts too.
	Token    uint64
	TTL      time.Duration // from when the Lease was granted or renewed
	Waited   time.Duration
	Limit    int // of the key, in units, now; of the rule that has the least room
	Inflight int // units of the key that are held under it, these included
}

// A LeaseRequest asks for units of a key.
type LeaseRequest struct {
	Key string
	N   int // units, >= 1
	// TTL is how long the lease lasts unless it is renewed. If zero or less, the
	// rule's TTL; the rule's MaxTTL bounds it. Of several rules, the least counts.
	TTL time.Duration
	// Wait stands in line if need be, until the deadline of the context or the
	// rule's MaxWait.
	Wait bool
}

// Errors of leases.
var (
	ErrNoLease   = errors.New("there is no such lease of this key: it was returned, or has run out")
	ErrNoLeasing = errors.New("no rule with a concurrency matches the key")
)

// Acquire leases N units of a key under every rule with a Concurrency that counts
// for it, or of none. The error is a *weir.Rejection (OverLimit, QueueFull,
// Overdue, TooLate, Closed), ErrNoLeasing, or the context's own. It panics if
// N < 1.
//
// Those who wait go first come, first served. The deadline of ctx is that of the
// wait, not of the work: who would be behind others for longer is refused at once
// (TooLate), as far as is known how long leases are held. A rejection's
// RetryAfter is such an estimate, too: 0 if nothing is known. If ctx is cancelled,
// there is no lease, even if its turn had come.
func (s *Server) Acquire(ctx context.Context, req LeaseRequest) (Lease, error) {
	if req.N < 1 {
		panic("server: a lease of less than one unit")
	}
	for {
		l, err := s.acquire(ctx, &req)
		if err != errMoved {
			return l, err
		}
	}
}

func (s *Server) acquire(ctx context.Context, req *LeaseRequest) (Lease, error) {
	_, rules, _ := s.keys.find(req.Key, s.rules.Load())
	ttl, most, ok := terms(rules)
	switch {
	case !ok:
		return Lease{}, ErrNoLeasing
	case s.closed.Load():
		return Lease{}, weir.Reject(weir.Closed, drainRetry)
	case ctx.Err() != nil:
		return Lease{}, ctx.Err()
	}
	start := s.now()
	asked := lease{key: req.Key, n: req.N, ttl: ttl, most: most} // not on the heap: the first rule's refusal allocates nothing
	for _, r := range inOrder(rules, make([]*Rule, 0, 8)) {
		if err := asked.ask(ctx, r, req.Wait); err != nil {
			asked.giveBack(weir.Ignored, 0)
			return Lease{}, err
		}
	}
	if ctx.Err() == context.Canceled { // nobody is there to hold it
		asked.giveBack(weir.Ignored, 0)
		return Lease{}, context.Canceled
	}
	l := new(lease)
	*l = asked
	l.key = strings.Clone(req.Key)
	now := s.now()
	ttl = l.lasts(req.TTL)
	if !s.leases.add(l, now, ttl) {
		l.giveBack(weir.Ignored, 0)
		return Lease{}, weir.Reject(weir.OverLimit, 0)
	}
	granted := l.view(ttl)
	granted.Waited = now - start
	return granted, nil
}

// inOrder appends to room the rules that lease, in the order in which all have to
// ask them, so that no two wait for each other: that in which their gates were made.
// The order of the rules may be another for who asks while they are reloaded.
func inOrder(rules, room []*Rule) []*Rule {
	for _, r := range rules {
		if r.Concurrency != nil {
			room = append(room, r)
		}
	}
	slices.SortFunc(room, func(a, b *Rule) int { return cmp.Compare(a.live.gates.order, b.live.gates.order) })
	return room
}

// terms returns how long leases last under these rules unless their callers say
// otherwise, and at most; and whether there are any. Rules on trial do not matter
// unless there are no others.
func terms(rules []*Rule) (ttl, most time.Duration, ok bool) {
	ttl, most = maxSpan, maxSpan
	for _, shadow := range []bool{false, true} {
		for _, r := range rules {
			if c := r.Concurrency; c != nil && (r.Mode == config.Shadow) == shadow {
				its := cmp.Or(c.TTL, config.DefaultTTL)
				ttl = min(ttl, its)
				most = min(most, cmp.Or(c.MaxTTL, 10*min(its, maxSpan/10)))
				ok = true
			}
		}
		if ok {
			break
		}
	}
	return min(ttl, most), most, ok
}

// Renew lets a lease last for a TTL from now: if that is zero or less, for its
// rule's, and never longer than its rule's MaxTTL, both as they were when it was
// granted. The error is ErrNoLease if it is not held any more: then its holder
// must stop.
func (s *Server) Renew(key, id string, ttl time.Duration) (Lease, error) {
	l, ttl, ok := s.leases.renew(key, id, ttl)
	if !ok {
		return Lease{}, ErrNoLease
	}
	for i := range l.held {
		l.held[i].door.gates.renewed.Add(1)
	}
	return l.view(ttl), nil
}

// Return gives a lease back, and tells how the work went, which an Auto limit
// learns from. After an Outcome that is Abandoned, the units stay in flight for as
// long as leases of the key are mostly held. The error is ErrNoLease.
func (s *Server) Return(key, id string, o weir.Outcome) error {
	l := s.leases.remove(key, id)
	if l == nil {
		return ErrNoLease
	}
	for i := range l.held {
		l.held[i].door.gates.returned.Add(1)
	}
	l.giveBack(o, s.now()-l.since)
	return nil
}

// A lease is one that is held or, until it is added to leases, asked for.
type lease struct {
	id        leaseID
	key       string
	n         int
	token     uint64
	ttl, most time.Duration // how long it lasts if nobody says, and at most
	held      []held
	blind     bool // it began in another process: how long its work took is not known

	since time.Duration // when it was granted, on the Server's clock

	until time.Duration // guarded by leases.mu
	at    int           // in expiries, guarded by leases.mu; -1 if it has ended
}

// held is the units of a lease under one rule.
type held struct {
	door   *door
	permit weir.Permit
	shadow bool // the rule is on trial
}

// lasts returns how long a lease is to last whose caller says ttl.
func (l *lease) lasts(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return l.ttl
	}
	return min(ttl, l.most)
}

// ask asks for the units under one rule. A rule on trial is not waited for: who
// would not have a lease under it does not hold one under it.
func (l *lease) ask(ctx context.Context, r *Rule, wait bool) error {
	g := r.live.gates
	d := g.enter(r.bucket(l.key))
	if d == nil {
		return errMoved
	}
	shadow := r.Mode == config.Shadow
	p, ok := d.limiter.TryAcquire(ctx, l.n)
	switch {
	case ok:
	case shadow:
		g.shadowed.Add(1)
		g.leave(d, 0)
		return nil
	case !wait:
		g.leave(d, 0)
		return g.refuse(weir.OverLimit, d.retry(l.n))
	default:
		var err error
		if p, err = g.wait(ctx, d, l); err != nil {
			g.leave(d, 0)
			return err
		}
	}
	g.held.Add(int64(l.n))
	l.held = append(l.held, held{d, p, shadow})
	return nil
}

// giveBack gives the units back, the last first, after they were held for so long;
// 0 if nobody had them.
func (l *lease) giveBack(o weir.Outcome, took time.Duration) {
	if l.blind {
		took = 0
		if o == weir.Success {
			o = weir.Ignored
		}
	}
	for i := len(l.held) - 1; i >= 0; i-- {
		h := &l.held[i]
		h.permit.Release(o)
		h.door.gates.held.Add(-int64(l.n))
		h.door.gates.leave(h.door, took)
	}
}

// view is what the holder of a lease is told.
func (l *lease) view(ttl time.Duration) Lease {
	v := Lease{ID: l.id.String(), Key: l.key, N: l.n, Token: l.token, TTL: ttl}
	seen := false // a rule that is not on trial
	for i := range l.held {
		h := &l.held[i]
		if seen && h.shadow {
			continue
		}
		st := h.door.limiter.Stats()
		if i == 0 || !seen && !h.shadow || st.Limit-st.Inflight < v.Limit-v.Inflight {
			v.Limit, v.Inflight = st.Limit, st.Inflight
		}
		seen = seen || !h.shadow
	}
	return v
}
