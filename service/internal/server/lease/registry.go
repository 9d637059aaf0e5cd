package lease

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/heap"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease/unknown"
	"github.com/weir-go/weir/service/internal/server/record"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Registry has all leases that are held, under any rule. One timer, for the
// lease that expires next, ends them.
type Registry struct {
	clock    *clock.Clock
	queue    queue
	max      int
	full     atomic.Uint64  // requests refused because max leases were held
	orders   atomic.Uint64  // Limits made so far
	secret   siphash.Key    // of ids; constant after Restore
	fleet    bool           // other nodes have the secret, too
	crash    *unknown.Crash // of the last process, else nil; constant after Restore
	route    func(key string) uint16
	expected unknown.Slots
	Recorder *record.Recorder // of leases; nil: none. It does not change
	rules    atomic.Pointer[inForce]
	gone     map[string]*Limits // by name, of rules that are gone, while leases are held under them

	mu    sync.Mutex // guards what follows
	held  map[ID]*holding
	due   *heap.Heap[*holding] // by Until
	token uint64
	timer *time.Timer // nil until there is a lease
}

// firstToken returns a fencing token for the present instant. It increases by 976,562 a
// second: tokens stay behind it while fewer leases are granted, averaged over the life of
// a node.
func firstToken() uint64 { return uint64(time.Now().UnixNano()) >> 10 }

// expireAtOnce bounds the leases that expire without releasing the lock.
const expireAtOnce = 256

// NewRegistry returns a Registry of at most max leases.
func NewRegistry(c *clock.Clock, room *waiting.Room, max int, r *record.Recorder) *Registry {
	return &Registry{
		clock: c, max: max, Recorder: r, gone: map[string]*Limits{}, queue: queue{clock: c, room: room, waiters: map[*waiter]struct{}{}}, secret: siphash.New(), held: map[ID]*holding{}, token: firstToken(),
		due: heap.New(func(a, b *holding) bool { return a.Until < b.Until }).Track(func(h *holding, at int) { h.heapIndex = at }),
	}
}

// Under is a bucket of a rule that a lease needs units of.
type Under struct {
	Limits *Limits
	Bucket string
	Shadow bool // the rule refuses nothing
}

// A holding is a lease, or a request for one.
type holding struct {
	SavedLease // constant once it is held, but for Until, which Registry.mu guards

	parts []part
	slot  uint16 // of the key
	// restored is set if the lease was granted by an earlier process: how long its
	// work took is unknown.
	restored bool

	since     time.Duration // when it was granted
	waited    time.Duration // before that
	inflight  int           // units of the first rule when it was granted, these included
	heapIndex int           // in Registry.due, guarded by Registry.mu; -1 if it has ended
}

// A part is the units of a lease under one rule.
type part struct {
	bucket *bucket
	permit weir.Permit
	shadow bool
}

// acquire grants a lease under all rules of a plan or under none. The error is waiting.ErrMoved if the rules have
// changed meanwhile.
func (g *Registry) acquire(ctx context.Context, req *decider.LeaseRequest, plan Plan, again *Wait) (decider.Lease, error) {
	// On the stack: a refusal by the first rule allocates nothing.
	asked := holding{SavedLease: SavedLease{Key: req.Key, N: req.N}, slot: g.slotOf(req.Key)}
	switch err := g.collect(ctx, &asked, req.Wait, &plan, again); err {
	case nil:
	case waiting.ErrMoved:
		again.parts = asked.parts
		g.queue.published()
		return decider.Lease{}, err
	default:
		asked.release(weir.Ignored, 0)
		return decider.Lease{}, err
	}
	h := new(holding)
	*h = asked
	h.Key, h.Terms = strings.Clone(req.Key), plan.terms
	now := g.clock.Now()
	if again.arrival != 0 {
		h.waited = now - again.began
	}
	ttl := h.ttl(req.TTL)
	if err := g.add(h, rulesSum(plan.under), now, ttl); err != nil {
		h.release(weir.Ignored, 0)
		return decider.Lease{}, err
	}
	granted := h.view(ttl)
	granted.Waited = h.waited
	return granted, nil
}

// collect takes the units of a lease under all rules of a plan. If there is an error, h has
// units of some.
func (g *Registry) collect(ctx context.Context, h *holding, wait bool, plan *Plan, again *Wait) error {
	if again.arrival == 0 {
		again.began = g.clock.Now()
	}
	if again.parts != nil {
		dropped := holding{SavedLease: SavedLease{N: h.N}}
		h.parts, dropped.parts = plan.keep(again.parts)
		dropped.release(weir.Ignored, 0)
	}
	switch {
	case len(plan.under) == 0:
		return decider.ErrNoLeasing
	case again.arrival == 0 && g.queue.room.Closed():
		return weir.Reject(weir.Closed, waiting.DrainRetry)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	for i := len(h.parts); i < len(plan.under); i++ {
		b, err := h.ask(&plan.under[i], wait, plan.rules)
		if b != nil {
			err = g.queue.wait(ctx, b, h, plan, again)
			i = len(h.parts) - 1 // up to there, it has units under each rule
		}
		if err != nil {
			return err
		}
	}
	if ctx.Err() == context.Canceled { // the caller has left
		return context.Canceled
	}
	return nil
}

// ask takes the units under one rule, if they are free and no request waits for them. If
// not, it returns the bucket that the request has to wait for, or an error if it does not
// wait. A request does not wait for a shadow rule: if that would refuse it, the lease holds
// no units of it.
func (h *holding) ask(u *Under, wait bool, rules uint64) (*bucket, error) {
	l := u.Limits
	b, ok, recovers := l.take(h, u, rules)
	switch {
	case b == nil && recovers == 0:
		return nil, waiting.ErrMoved
	case ok:
		return nil, nil
	case b != nil && wait && !u.Shadow:
		return b, nil
	}
	why, retryAfter := weir.Recovering, recovers
	if b != nil {
		why, retryAfter = weir.OverLimit, b.returns(h.N, int(b.queued.Load()))
		l.leave(b, 0)
	}
	if u.Shadow {
		l.shadowed.Add(1)
		return nil, nil
	}
	return nil, l.refuse(why, retryAfter)
}

// hold adds units of a bucket to a lease. It moves the permit.
func (h *holding) hold(b *bucket, p *weir.Permit, shadow bool) {
	h.inflight = cmp.Or(h.inflight, int(b.limits.held.Add(int64(h.N))))
	h.parts = append(h.parts, part{b, p.Move(), shadow})
}

// ttl returns how long the lease lasts if its caller asks for d.
func (h *holding) ttl(d time.Duration) time.Duration {
	if d <= 0 {
		return h.Terms.TTL
	}
	return min(d, h.Terms.MaxTTL)
}

// release returns the units, the last acquired first; took is how long they were
// held, 0 if they were not.
func (h *holding) release(o weir.Outcome, took time.Duration) {
	if h.restored {
		took = 0
		if o == weir.Success {
			o = weir.Ignored
		}
	} else if took > 0 && len(h.parts) > 0 {
		l := h.parts[0].bucket.limits
		l.registry.Recorder.Lease(l.name, h.waited, took, h.inflight, o)
	}
	o = lesson(o, took, h.waited)
	for i := len(h.parts) - 1; i >= 0; i-- {
		p := &h.parts[i]
		p.bucket.limits.held.Add(-int64(h.N))
		p.permit.Release(o)
		p.bucket.serve()
		p.bucket.limits.leave(p.bucket, took)
	}
}

// lesson returns the outcome that a limit learns from. Work that took too long tells nothing
// about the limit if most of its time went by in the queue.
func lesson(o weir.Outcome, took, waited time.Duration) weir.Outcome {
	switch {
	case took > waited:
	case o == outcome.TimedOut:
		return outcome.Left
	case o == outcome.Late:
		return weir.Ignored
	}
	return o
}

// view returns the lease as its holder sees it.
func (h *holding) view(ttl time.Duration) decider.Lease {
	v := decider.Lease{ID: h.ID.text(h.N), Key: h.Key, N: h.N, Token: h.Token, TTL: ttl}
	enforced := false // v describes a rule that is not in shadow mode
	for i := range h.parts {
		p := &h.parts[i]
		if enforced && p.shadow {
			continue
		}
		st := p.bucket.limiter.State()
		if i == 0 || !enforced && !p.shadow || st.Limit-st.Inflight < v.Limit-v.Inflight {
			v.Limit, v.Inflight = st.Limit, st.Inflight
		}
		enforced = enforced || !p.shadow
	}
	return v
}

// renew extends a lease.
func (g *Registry) renew(key, id string, ttl time.Duration) (decider.Lease, error) {
	g.mu.Lock()
	now := g.clock.Now()
	h := g.findLocked(key, id, now)
	if h == nil {
		g.mu.Unlock()
		return decider.Lease{}, decider.ErrNoLease
	}
	ttl = h.ttl(ttl)
	h.Until = now + ttl
	g.due.Fix(h.heapIndex)
	if h.heapIndex == 0 { // a timer that fires too early is set again
		g.setTimerLocked()
	}
	g.mu.Unlock()
	for i := range h.parts {
		h.parts[i].bucket.limits.renewed.Add(1)
	}
	return h.view(ttl), nil
}

// giveBack ends a lease.
func (g *Registry) giveBack(key, id string, o weir.Outcome) error {
	g.mu.Lock()
	now := g.clock.Now()
	h := g.findLocked(key, id, now)
	if h == nil {
		g.mu.Unlock()
		return decider.ErrNoLease
	}
	g.due.Remove(h.heapIndex)
	delete(g.held, h.ID)
	g.mu.Unlock()
	for i := range h.parts {
		h.parts[i].bucket.limits.returned.Add(1)
	}
	h.release(o, now-h.since)
	return nil
}

// findLocked returns a lease of the key that has not expired; nil if there is none.
func (g *Registry) findLocked(key, text string, now time.Duration) *holding {
	id, n, ok := parseID(text)
	if h := g.held[id]; ok && h != nil && h.Key == key && h.N == n && h.Until > now {
		return h
	}
	return nil
}

// add adds a lease under rules with a sum. It returns an error if there are too many, or if
// another node is the owner of the key.
func (g *Registry) add(h *holding, rules uint64, now, ttl time.Duration) error {
	h.since = now
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.queue.room.Owned(h.slot); err != nil { // either this sees it, or Extract sees the lease
		return err
	}
	if len(g.held) >= g.max {
		g.full.Add(1)
		return weir.Reject(weir.OverLimit, 0)
	}
	g.token++
	h.Token = g.token
	h.ID = g.sealed(h.Token, h.N, rules, h.Key)
	for i := range h.parts {
		h.parts[i].bucket.limits.granted.Add(1)
	}
	g.holdLocked(h, now+ttl)
	return nil
}

func (g *Registry) holdLocked(h *holding, until time.Duration) {
	h.Until = until
	g.held[h.ID] = h
	g.due.Push(h)
	if h.heapIndex == 0 {
		g.setTimerLocked()
	}
}

// expire ends the leases that have expired. Each is taken out under the lock, as
// Return does it, so that its units are released once.
func (g *Registry) expire() {
	for {
		ended, more := g.takeExpired()
		now := g.clock.Now()
		for _, h := range ended {
			for i := range h.parts {
				h.parts[i].bucket.limits.expired.Add(1)
			}
			h.release(weir.Ignored, now-h.since)
		}
		if !more {
			return
		}
	}
}

// takeExpired takes out leases that have expired. If there may be more of them, it
// does not set the timer.
func (g *Registry) takeExpired() (ended []*holding, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	for g.due.Len() > 0 && g.due.Min().Until <= now {
		if len(ended) == expireAtOnce {
			return ended, true
		}
		h := g.due.Pop()
		delete(g.held, h.ID)
		ended = append(ended, h)
	}
	g.setTimerLocked()
	return ended, false
}

func (g *Registry) setTimerLocked() {
	if g.due.Len() == 0 {
		return
	}
	in := max(g.due.Min().Until-g.clock.Now(), 0)
	if g.timer == nil {
		g.timer = time.AfterFunc(in, g.expire)
	} else {
		g.timer.Reset(in)
	}
}

// Count returns the number of leases held, and of requests that were refused
// because there were too many.
func (g *Registry) Count() (held int, refused uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.held), g.full.Load()
}

// Max returns the bound on the number of leases.
func (g *Registry) Max() int { return g.max }
