package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Decide decides at once: see decider.Decider.
func (n *Node) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if err := n.enterRequest(ctx, req); err != nil {
		return err
	}
	for at := n.clock.At(req.Now); ; {
		*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
		a := counts.Ask{Found: n.keys.Find(req.Key, n.rules.Load()), Req: req, V: v}
		if len(a.Rated) == 0 || req.Quota != nil || req.N < 0 {
			if decided, err := n.decideUnasked(&a, true); decided || err != nil {
				return err
			}
		}
		whole, err := n.counts.Take(ctx, a)
		if err == nil {
			n.conclude(&a, whole, true)
		}
		if !moved(err) {
			return err
		}
	}
}

// decideUnasked makes the verdict about a request that Counts need not be asked about: one without a
// quota, for a key that no rule matches. It counts one that is allowed only if final is set. The
// error is one of the request.
func (n *Node) decideUnasked(a *counts.Ask, final bool) (decided bool, err error) {
	switch {
	case a.Req.N < 0:
		panic("server: negative cost")
	case a.Unrated(a.Req):
		return false, decider.ErrNoRate
	case a.Req.Quota != nil:
		if !a.AllowsOwn() {
			err = decider.ErrOwnQuota
		}
		return false, err
	case len(a.List) > 0:
		return false, nil
	}
	n.unmatched(a, final)
	return true, nil
}

// conclude makes the verdict of what Counts have answered, unless that is whole, and counts the
// request; one that is allowed only if final is set.
func (n *Node) conclude(a *counts.Ask, whole, final bool) {
	switch v := a.V; {
	case !whole && a.Req.Quota != nil:
		n.foldOwn(a, final)
	case !whole:
		n.fold(a, final)
	case v.OK && final:
		n.countWhole(a)
	case !v.OK && v.Reason != 0 && a.Req.N > 0:
		n.countWholeDenied(a)
	}
	if n.cfg.OnStep != nil && (whole || a.V.Step != decider.Exact) {
		n.cfg.OnStep(a.Req.Key, a.V)
	}
}

// fold makes a verdict of the answers of rules.
func (n *Node) fold(a *counts.Ask, final bool) {
	v, cost := a.V, a.Req.N
	v.Rule = a.First()
	for i, j := 0, 0; i < len(v.Answers); i, j = i+1, j+1 {
		answer := &v.Answers[i]
		j = counts.RuleOf(answer, a.Rated, j)
		switch r := a.Rated[j]; {
		case answer.OK:
		case r.Mode == config.Shadow:
			if cost > 0 {
				r.Tally.Shadowed.Add(1)
			}
		default:
			why := v.Reason
			switch {
			case why != 0:
			case answer.RetryAfter == weir.Never && cost > 0:
				why = weir.OverBurst
			default:
				why = weir.OverRate
			}
			if cost > 0 {
				r.Tally.Denied[why].Add(1)
				a.Known.Count(false, false)
			}
			v.Deny(why, answer.RetryAfter)
			return
		}
	}
	if v.OK = true; cost == 0 {
		v.Grant = decider.Grant{}
		return
	}
	if v.Grant.N = cost; v.Grant.At == 0 {
		v.Grant.At = v.At
	}
	if final {
		n.count(a)
	}
}

// foldOwn makes the verdict of a request that brings a quota, which decides instead of the rates of
// the rules. These count its outcome.
func (n *Node) foldOwn(a *counts.Ask, final bool) {
	v, cost := a.V, a.Req.N
	v.Rule = a.First()
	switch d := &v.Answers[0]; {
	case d.OK:
	case a.OnlyShadows():
		for _, r := range a.Rated {
			if cost > 0 {
				r.Tally.Shadowed.Add(1)
			}
		}
	default:
		why := v.Reason
		if why == 0 {
			why = counts.ReasonOf(d.Decision)
		}
		if cost > 0 {
			n.countOwnDenied(a, why)
		}
		v.Deny(why, d.RetryAfter)
		return
	}
	v.OK = true
	if final {
		n.count(a)
	}
}

// Batch decides many requests: see decider.Decider.
func (n *Node) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	return n.decideAll(ctx, reqs, all, verdicts, false)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (n *Node) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	return n.decideAll(ctx, reqs, all, verdicts, true)
}

// decideAll decides requests, which may be descriptors of one request.
func (n *Node) decideAll(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict, descriptors bool) (ok bool, err error) {
	for {
		set := n.rules.Load()
		if descriptors {
			set.DropQuotas(reqs)
		}
		if err := n.enterAll(ctx, reqs); err != nil {
			return false, err
		}
		if ok, err = n.batch(ctx, set, reqs, all, verdicts, descriptors && set.Replaces()); !moved(err) {
			return ok, err
		}
	}
}

// batch is Batch under some rules. With replaces set, requests with a rule that is replaced by the
// rule of another take no tokens.
func (n *Node) batch(ctx context.Context, set *rules.Set, reqs []decider.Request, all bool, verdicts []decider.Verdict, replaces bool) (ok bool, err error) {
	var few [16]rules.Found
	keys, err := n.keys.FindAll(ctx, reqs, set, few[:0])
	if err != nil && all {
		return false, err
	}
	reqs, ok = reqs[:len(keys)], err == nil
	for i := range reqs {
		if err := check(&keys[i], &reqs[i]); err != nil {
			return false, err
		}
	}
	var replaced map[string]bool
	if replaces {
		replaced = rules.Replaced(keys, reqs)
	}
	var at time.Duration
	if len(reqs) > 0 {
		at = n.clock.At(reqs[0].Now)
	}
	b := n.batches.get(len(reqs))
	defer n.batches.put(b)
	for i := range reqs {
		a, v := &b.asks[i], &verdicts[i]
		*v = decider.Verdict{At: at, Answers: v.Answers[:0]}
		*a = counts.Asked{Ask: counts.Ask{Found: keys[i], Req: &reqs[i], V: v}}
		if a.Decided = len(replaced) > 0 && replaced[a.Name(a.Req)]; a.Decided {
			v.OK = true
		} else {
			a.Decided, _ = n.decideUnasked(&a.Ask, !all) // no error: the requests are checked
		}
	}
	n.counts.TakeAll(ctx, b.asks, all)
	if all && slices.ContainsFunc(b.asks, func(a counts.Asked) bool { return moved(a.Err) }) {
		return false, waiting.ErrMoved
	}
	for i := range b.asks {
		a := &b.asks[i]
		if moved(a.Err) { // the others keep what they took
			a.Err = n.Decide(ctx, a.Req, a.V)
			a.Decided = a.Err == nil
		}
		switch {
		case a.Err != nil:
			a.V.Deny(0, 0)
			if err == nil {
				err = a.Err
			}
		case !a.Decided:
			if n.conclude(&a.Ask, a.Whole, !all); a.Untaken && a.V.OK {
				a.V.Deny(0, 0)
			}
		}
		ok = ok && a.V.OK
	}
	if all {
		n.endAll(b.asks, ok)
	}
	return ok, err
}

// endAll ends a batch that is all or nothing.
func (n *Node) endAll(asks []counts.Asked, ok bool) {
	for i := range asks {
		a := &asks[i]
		switch {
		case !ok && a.V.OK:
			a.V.Deny(0, 0)
		case !ok:
		case a.Decided && len(a.List) > 0: // replaced
		case a.Decided:
			n.unmatchedAllowed.Add(1)
		case a.Whole:
			n.countWhole(&a.Ask)
		default:
			n.count(&a.Ask)
		}
	}
}

// batches keep the asks of batches for the next ones.
type batches struct{ pool sync.Pool }

type batch struct{ asks []counts.Asked }

// maxKeptAsks bounds the asks of a batch that is kept.
const maxKeptAsks = 1 << 10

func (p *batches) get(n int) *batch {
	b, _ := p.pool.Get().(*batch)
	if b == nil {
		b = new(batch)
	}
	b.asks = slices.Grow(b.asks, n)[:n]
	return b
}

func (p *batches) put(b *batch) {
	clear(b.asks)
	if b.asks = b.asks[:0]; cap(b.asks) <= maxKeptAsks {
		p.pool.Put(b)
	}
}

func (n *Node) wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	*v = decider.Verdict{Answers: v.Answers[:0]}
	if err := n.enterRequest(ctx, req); err != nil {
		return err
	}
	b := n.batches.get(1)
	defer n.batches.put(b)
	a := &b.asks[0]
	*a = counts.Asked{Ask: counts.Ask{Req: req, V: v}}
	for {
		switch {
		case !n.find(a):
			return a.Err
		case req.Quota != nil || req.N == 0: // it cannot wait
			a.Whole, a.Err = n.counts.Take(ctx, a.Ask)
		default:
			n.counts.Await(ctx, a, n.again)
		}
		if a.Decided || a.Err == nil {
			break
		}
		if !moved(a.Err) {
			return a.Err
		}
	}
	if !a.Decided {
		n.conclude(&a.Ask, a.Whole, true)
	}
	return nil
}

// find finds a request under the rules in force. It keeps how long it has waited. It returns false if the request
// is decided then.
func (n *Node) find(a *counts.Asked) bool {
	v := a.V
	*v = decider.Verdict{At: n.clock.Now(), Answers: v.Answers[:0], Waited: v.Waited, Place: v.Place}
	a.Found = n.keys.Find(a.Req.Key, n.rules.Load())
	a.Whole = false
	a.Decided, a.Err = n.decideUnasked(&a.Ask, true)
	return !a.Decided && a.Err == nil
}

// Settle reports the true cost of a grant: see decider.Decider.
func (n *Node) Settle(ctx context.Context, key, id string, cost int) (done decider.Settlement, err error) {
	if cost < 0 {
		panic("server: negative cost")
	}
	if err := n.Enter(ctx, key); err != nil {
		return decider.Settlement{}, err
	}
	for {
		if done, err = n.counts.Redeem(ctx, n.Match(key), key, id, cost); !moved(err) {
			return done, err
		}
	}
}

// AppendGrantID appends the id of a grant: see decider.Decider.
func (n *Node) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return n.counts.AppendGrantID(b, g, key)
}
