package decidertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A toy is Counts in a map: about the least that a new backend needs. Its buckets are never forgotten.
type toy struct {
	counts.Node
	*grant.Ledger
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

// bucket returns the bucket of a name, which counts by a quota.
func (t *toy) bucket(name string, q config.Quota) *toyBucket {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.all[name]
	if b == nil || !rules.SameKind(b.of, q) {
		b = &toyBucket{of: q, since: t.Clock.Now()}
		b.Buckets, _ = quota.New(t.Clock, q, config.PerKey, quota.MinMemory)
		b.queue.Init(t.Clock, t.Room, b.Buckets)
		t.all[name] = b
	}
	b.of = q
	b.SetQuota(q)
	return b
}

func (t *toy) ruled(r *rules.Rule, key string) *toyBucket {
	return t.bucket(fmt.Sprint(r.Name, r.Per, r.Bucket(key)), r.Quota)
}

func (t *toy) Take(_ context.Context, a counts.Ask) (whole bool, err error) {
	return false, t.take(&a, nil)
}

func (t *toy) take(a *counts.Ask, w *counts.Wait) error {
	if a.Req.Quota != nil {
		b, own, err := t.find(nil, a)
		if err == nil {
			a.Answer(b.queue.Decide("", b.Fingerprint(""), a.V.At, a.Req.N, own, own, own, false), counts.OwnRule)
		}
		return err
	}
	shadows := 0
	for _, r := range a.Rated {
		b := t.ruled(r, a.Req.Key)
		l := t.Line(a.Req, r, &b.queue, "")
		d, redeemed := w.Redeem(&b.queue)
		if !redeemed {
			d = b.queue.Decide("", b.Fingerprint(""), a.V.At, a.Req.N, l.OwnLimit, l.Limit, r.Within(l.OwnLimit), a.Req.WantID)
		}
		if a.Answer(d, r.Ref); !d.OK && r.Mode != config.Shadow {
			if granted, err := w.Under(a, l); !granted {
				t.undo(a)
				return err
			}
		}
		a.Give(r, b.since, &shadows)
	}
	return nil
}

// find returns the bucket of a rule or, if that is nil, of the quota that a request brings, with its limit.
func (t *toy) find(r *rules.Rule, a *counts.Ask) (b *toyBucket, own int, err error) {
	if r != nil {
		return t.ruled(r, a.Req.Key), 0, nil
	}
	r, q, err := a.OwnBucket()
	if r != nil {
		return t.ruled(r, a.Req.Key), q.Limit(), nil
	}
	return t.bucket(fmt.Sprint(q.Rate.Period, q.Burst, a.Req.Key), q), q.Limit(), err
}

func (t *toy) undo(a *counts.Ask) {
	for r, answer := range a.Given {
		b, _, _ := t.find(r, a)
		b.queue.Settle("", answer.At, a.Req.N, 0)
	}
}

func (t *toy) TakeAll(_ context.Context, asks []counts.Asked, all bool) {
	counts.Each(asks, all, func(a *counts.Asked) { a.Err = t.take(&a.Ask, nil) }, t.undo)
}

func (t *toy) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	counts.Await(ctx, a, again, t.take)
}

func (t *toy) Look(_ context.Context, m *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	counts.Look(m, states, func(r *rules.Rule) decider.RuleState {
		b := t.ruled(r, key)
		d := b.queue.Decide("", b.Fingerprint(""), t.Clock.Now(), 0, 0, 0, r.Limit(), false)
		return counts.StateOf(d, b.Used(""), b.queue.Len(""))
	})
	return nil, nil
}

func (t *toy) Redeem(_ context.Context, m *rules.Match, key, id string, n int) (decider.Settlement, error) {
	since := func(r *rules.Rule) time.Duration { return t.ruled(r, key).since }
	return counts.Redeem(t.Ledger, m, key, id, n, t.Clock.Now(), since, func(r *rules.Rule, g decider.Grant) int {
		b := t.ruled(r, key)
		return b.queue.Settle("", g.At, g.N, min(n, g.N+counts.Chargeable(r, b.Used(""))))
	})
}

func (t *toy) Reset(_ context.Context, m *rules.Match, key string) ([]decider.Reset, error) {
	return counts.Reset(m, func(r *rules.Rule) int { return t.ruled(r, key).queue.Reset("") }), nil
}

func (t *toy) Waiting(_ *rules.Set, r *rules.Rule, key string) int {
	return t.ruled(r, key).queue.Len("")
}

func (t *toy) queues(yield func(*quota.Queue) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.all {
		yield(&b.queue)
	}
}

func (t *toy) Use(next *rules.Set) (done func(), err error) {
	line := func(r *rules.Rule, req *decider.Request) counts.Line {
		return t.Line(req, r, &t.ruled(r, req.Key).queue, "")
	}
	return counts.Move(t.queues, next, line, nil), nil
}
