package server

import (
	"context"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Batch decides many requests: see decider.Decider.
func (t *Tier) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	return t.batch(ctx, reqs, all, verdicts, nil)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (t *Tier) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	return t.batch(ctx, reqs, all, verdicts, t.Replaced(reqs))
}

// A tierBatch is the requests of a batch.
type tierBatch struct {
	tier     *Tier
	all      bool
	reqs     []tierRequest
	verdicts []decider.Verdict

	// Of the requests that the upstream is asked about: their places, and copies.
	places []int
	asks   []decider.Request
	got    []decider.Verdict
}

// batch decides what the node can decide, and asks the upstream about the rest together.
func (t *Tier) batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict, replaced []bool) (ok bool, err error) {
	if err := t.CheckRequests(reqs); err != nil {
		return false, err
	}
	rs := t.rules.Load()
	keys, err := t.keys.FindAll(ctx, reqs, rs.Set, nil)
	if err != nil && all {
		return false, err
	}
	b := tierBatch{tier: t, all: all, reqs: make([]tierRequest, len(keys)), verdicts: verdicts}
	ok = err == nil
	for i := range keys {
		v := &verdicts[i]
		if replaced != nil && replaced[i] {
			*v = decider.Verdict{OK: true, At: t.clock.Now(), Answers: v.Answers[:0]}
			continue
		}
		r := &b.reqs[i]
		*r = t.resolve(rs, keys[i], &reqs[i])
		if !t.decideHere(r, v, !all) {
			b.places, b.asks = append(b.places, i), append(b.asks, reqs[i])
			continue
		}
		ok = ok && v.OK
	}
	return b.finish(ctx, ok, err)
}

// finish decides the rest of a batch; ok reports whether all requests so far are allowed.
func (b *tierBatch) finish(ctx context.Context, ok bool, err error) (bool, error) {
	if len(b.asks) > 0 && (ok || !b.all) {
		fine, failed := b.ask(ctx)
		if ok = ok && fine; failed != nil {
			if err = failed; !b.all {
				for _, i := range b.places {
					b.verdicts[i].Deny(0, 0)
				}
			}
		}
	}
	if b.all {
		b.settle(ok && err == nil)
	}
	return ok && err == nil, err
}

// ask asks the upstream. If it does not answer, the node decides.
func (b *tierBatch) ask(ctx context.Context) (ok bool, err error) {
	t := b.tier
	b.got = make([]decider.Verdict, len(b.asks))
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		ok, err = t.cfg.Upstream.Batch(ctx, b.asks, b.all, b.got)
		return err
	})
	switch {
	case err == errUpstream:
		return b.decideAway()
	case err != nil:
		return false, err
	}
	for n, i := range b.places {
		b.verdicts[i] = b.got[n]
		t.asked(&b.reqs[i], &b.verdicts[i], !b.all)
	}
	return ok, nil
}

// decideAway decides by the node alone what the upstream was asked about.
func (b *tierBatch) decideAway() (ok bool, err error) {
	ok = true
	for _, i := range b.places {
		if err := b.tier.decideAway(&b.reqs[i], &b.verdicts[i]); err != nil {
			return false, err
		}
		ok = ok && b.verdicts[i].OK
	}
	return ok, nil
}

// settle ends a batch that is all or nothing: it counts what is allowed, or takes it back.
func (b *tierBatch) settle(ok bool) {
	t := b.tier
	for i := range b.reqs {
		r, v := &b.reqs[i], &b.verdicts[i]
		switch {
		case ok && r.req != nil && r.alone == nil:
			t.countAllowed(r)
		case !ok && v.OK:
			t.takeBack(r, v)
			v.Deny(0, 0)
		}
	}
}

// takeBack returns what a request was given here.
func (t *Tier) takeBack(r *tierRequest, v *decider.Verdict) {
	switch {
	case r.req == nil: // the rule of another request replaces its rule
	case r.alone != nil:
		t.undoAlone(r.rs, r.alone, r.req, v)
	case r.way == byNode:
		t.giveBack(r.rs, r.k.Match, r.req, v.Answers)
	case r.way == byLeaf && r.req.N > 0:
		t.leaf.Settle(r.terms.key(r.req.Key), t.onLeaf(v.Grant.At), r.req.N, 0)
	}
}
