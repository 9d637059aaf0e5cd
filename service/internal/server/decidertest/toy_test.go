package decidertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	deciding "github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A toy is Counts in a map: about the least that a new backend needs. Its buckets are never forgotten, and a change of the
// rules does not keep the order of requests that wait.
type toy struct {
	counts.Bounds
	clock  *clock.Clock
	room   *waiting.Room
	grants *grant.Ledger

	mu  sync.Mutex // guards all
	all map[string]*toyBucket
}

// A toyBucket is the bucket of one key, with the requests that wait for it.
type toyBucket struct {
	quota.Buckets
	queue quota.Queue
	of    config.Quota
	since time.Duration
}

// newToy returns a node that counts in a map.
func newToy(_ *testing.T, first *config.Rules) (*node, error) {
	c, room, bounds := clock.New(), waiting.NewRoom(1000), counts.Bounds{MaxLimit: 1000, MaxQueue: 1000}
	t := &toy{Bounds: bounds, clock: c, room: room, grants: grant.NewLedger(), all: map[string]*toyBucket{}}
	leases := lease.NewRegistry(c, room, 1000, nil)
	n := deciding.New(deciding.Config{Bounds: bounds, Clock: c, Keys: rules.NewKeys(1000), Counts: t, Leases: leases})
	reload := func(next *config.Rules) error { return n.Reload(next, nil) }
	return &node{Decider: toyNode{n}, reload: reload, reset: n.Reset, close: func(now bool) {
		if room.Close(); now {
			t.each(func(b *toyBucket) { b.queue.Dismiss(weir.Reject(weir.Closed, waiting.DrainRetry)) })
			leases.Dismiss(waiting.DrainRetry)
		}
	}}, reload(first)
}

// A toyNode has no leaves.
type toyNode struct{ *deciding.Node }

func (toyNode) Exchange(context.Context, *decider.LeafExchange, *decider.LeafAnswer) error {
	return errNotAsked
}

func (t *toy) each(f func(*toyBucket)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.all {
		f(b)
	}
}

// bucket returns the bucket of a name, which counts by a quota.
func (t *toy) bucket(name string, q config.Quota) *toyBucket {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.all[name]
	if b == nil || !rules.SameKind(b.of, q) {
		b = &toyBucket{of: q, since: t.clock.Now()}
		b.Buckets, _ = quota.New(t.clock, q, config.PerKey, quota.MinMemory)
		b.queue.Init(t.clock, t.room, b.Buckets)
		t.all[name] = b
	}
	if b.of != q {
		b.SetQuota(q)
		b.of = q
	}
	return b
}

func (t *toy) ruled(r *rules.Rule, key string) *toyBucket {
	return t.bucket(fmt.Sprintf("%s %v %s", r.Name, r.Per, r.Bucket(key)), r.Quota)
}

// decide takes n tokens unless others wait for them, or looks.
func (b *toyBucket) decide(at time.Duration, n, own, within int, settled bool) weir.Decision {
	if d, ok := b.queue.Behind("", at, n, own, own, within); ok {
		return d
	}
	if n == 0 {
		return quota.Look(b, "", b.Fingerprint(""), at, own)
	}
	return b.Take("", b.Fingerprint(""), at, n, own, settled)
}

// Take takes at once: see counts.Counts.
func (t *toy) Take(ctx context.Context, a counts.Ask) (whole bool, err error) {
	return false, t.take(ctx, &a, nil)
}

// A toyWait is the history of a request that waits.
type toyWait struct {
	arrival uint64
	spent   time.Duration
}

func (t *toy) take(ctx context.Context, a *counts.Ask, wait *toyWait) error {
	if q := a.Req.Quota; q != nil {
		b, err := t.of(a, 0)
		if err == nil && a.Set.InWindow(q) {
			a.Answer(quota.TakeWithin(b, "", a.V.At, a.Req.N, q.Count), counts.OwnRule)
		} else if err == nil {
			a.Answer(b.decide(a.V.At, a.Req.N, 0, q.Limit(), false), counts.OwnRule)
		}
		return err
	}
	shadows := 0
	for _, r := range a.Rated {
		b, own := t.ruled(r, a.Req.Key), r.OwnLimit(t.Limit(a.Req))
		d := b.decide(a.V.At, a.Req.N, own, r.Within(own), a.Req.WantID)
		if !d.OK && wait != nil && r.Mode != config.Shadow && d.RetryAfter != weir.Never {
			res, err := b.queue.Wait(ctx, &quota.Request{N: a.Req.N, OwnLimit: own, Limit: own, Settled: a.Req.WantID, Stats: &r.Tally.Waits,
				MaxQueue: t.Queue(a.Req, r), MaxWait: counts.Left(r.MaxWait, wait.spent), Arrival: wait.arrival, OnWait: a.Req.OnWait, Rules: a.Set.ID})
			if a.V.Waited, a.V.Reason = a.V.Waited+res.Waited, res.Reason; wait.arrival == 0 {
				a.V.Place = res.Place
			}
			wait.arrival, wait.spent = res.Arrival, wait.spent+res.Waited
			if d.RetryAfter = max(res.RetryAfter, 0); err != nil {
				t.undo(a)
				return err
			}
			if res.Reason == 0 {
				d, a.V.At = res.Decision, t.clock.Now()
			}
		}
		a.Answer(d, r.Ref)
		if a.Give(r, b.since, &shadows); !d.OK && r.Mode != config.Shadow {
			t.undo(a)
			return nil
		}
	}
	return nil
}

// of returns the bucket of the quota that a request brings, or of a rule.
func (t *toy) of(a *counts.Ask, rated int) (*toyBucket, error) {
	q, m := a.Req.Quota, a.Match
	switch {
	case q == nil, a.Set.InWindow(q) && len(m.Rated) > 0 && m.Rated[0].Rate.Period == q.Unit && m.Rated[0].Alone(a.Req.Key):
		return t.ruled(m.Rated[rated], a.Req.Key), nil
	case a.Set.InWindow(q):
		return t.bucket(fmt.Sprint(q.Unit, a.Req.Key), config.Quota{Rate: config.Rate{Count: 1 << 30, Period: q.Unit}, Algorithm: config.FixedWindow}), nil
	}
	interval, err := q.Interval()
	return t.bucket(fmt.Sprint(interval, q.Limit(), a.Req.Key), config.Quota{Rate: config.Rate{Count: 1, Period: interval}, Burst: q.Limit()}), err
}

// undo returns what a request was given.
func (t *toy) undo(a *counts.Ask) {
	for i, answer := range a.V.Answers {
		b, _ := t.of(a, i)
		if answer.OK && a.Req.N > 0 {
			b.Settle("", answer.At, a.Req.N, 0)
			b.queue.Serve("")
		}
	}
}

// TakeAll takes from all or none: see counts.Counts.
func (t *toy) TakeAll(ctx context.Context, asks []counts.Asked, all bool) {
	counts.Each(asks, all, func(a *counts.Asked) { a.Err = t.take(ctx, &a.Ask, nil) }, t.undo)
}

// Await waits under one rule after another: see counts.Counts.
func (t *toy) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	var wait toyWait
	for a.Err = t.take(ctx, &a.Ask, &wait); a.Err == waiting.ErrMoved && again(a); a.Err = t.take(ctx, &a.Ask, &wait) {
	}
}

// Look tells the states of a key: see counts.Counts.
func (t *toy) Look(_ context.Context, m *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	for i, r := range m.List {
		if states[i].Allowed = true; r.Rated() {
			b := t.ruled(r, key)
			states[i] = counts.StateOf(b.decide(t.clock.Now(), 0, 0, r.Limit(), false), b.Used(""))
			states[i].Waiting = b.queue.Len("")
		}
	}
	return nil, nil
}

// AppendGrantID appends the id of a grant: see counts.Counts.
func (t *toy) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return t.grants.AppendID(b, g, key)
}

// Redeem settles a grant: see counts.Counts.
func (t *toy) Redeem(_ context.Context, m *rules.Match, key, id string, n int) (decider.Settled, error) {
	g, gave, err := t.grants.Redeem(id, key, counts.Sums(m, func(r *rules.Rule) uint64 { return counts.Mark(r, t.ruled(r, key).since) }, nil), t.clock.Now())
	if err != nil {
		return decider.Settled{}, err
	}
	return counts.Settle(m, g, gave, n, func(r *rules.Rule) (int, error) {
		b := t.ruled(r, key)
		charged := b.Settle("", g.At, g.N, min(n, g.N+max(counts.MaxDebt(r)+r.Limit()-b.Used(""), 0)))
		b.queue.Serve("")
		return charged, nil
	})
}

// Reset fills buckets: see counts.Counts.
func (t *toy) Reset(_ context.Context, m *rules.Match, key string) (done []decider.Reset, err error) {
	for _, r := range m.Rated {
		b := t.ruled(r, key)
		done = append(done, decider.Reset{Rule: r.Name, Returned: b.Reset("")})
		b.queue.Serve("")
	}
	return done, nil
}

// Waiting returns how many requests wait: see counts.Counts.
func (t *toy) Waiting(m *rules.Match, key string) (n int) {
	for _, r := range m.Rated {
		n += t.ruled(r, key).queue.Len("")
	}
	return n
}

// Use has the requests that wait ask again under the next rules, in any order: see counts.Counts.
func (t *toy) Use(next *rules.Set) (done func(), err error) {
	return func() {
		t.each(func(b *toyBucket) {
			b.queue.Outdate(next.ID)
			for _, w := range b.queue.Waiters(next.ID) {
				w.Move(nil)
			}
		})
	}, nil
}
