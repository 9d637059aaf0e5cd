package server

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Await has requests wait for the tokens of an assignment in order of arrival at the node, for the
// others at the upstream.
//
// A rule's queue bounds the time, as if all requests had this cost and the whole rate.
func (t assigned) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	r := tierRequest{Asked: a}
	r.way, r.terms = t.resolve(&a.Ask)
	if r.way == byNode {
		a.Whole, a.Err = t.Take(ctx, a.Ask)
		return
	}
	w := tierWait{tier: t.Tier, r: &r, began: time.Now(), again: again}
	if r.way != byLeaf || !w.wait(ctx) {
		w.waitThere(ctx)
	}
}

// A tierWait is a request that waits: for tokens of an assignment, or at the upstream.
type tierWait struct {
	tier   *Tier
	r      *tierRequest
	began  time.Time
	stop   context.CancelFunc
	queued bool // it has a place in the queue
	full   bool // too many requests wait at the node
	again  func(*counts.Asked) bool
}

// patience returns how long the request may wait, and why not longer; the deadline of its context
// may end the wait earlier.
func (w *tierWait) patience() (time.Duration, weir.Reason) {
	t, req := w.tier, w.r.Req
	longest, why := time.Duration(weir.Never), weir.OverRate
	for _, rule := range w.r.Rated {
		if rule.Mode == config.Shadow {
			continue
		}
		if rule.MaxWait > 0 && rule.MaxWait < longest {
			longest, why = rule.MaxWait, weir.OverRate
		}
		perToken := float64(rule.Rate.Period) / float64(rule.Rate.Count)
		if queue := float64(t.bounds.Queue(req, rule)) * float64(req.N) * perToken; queue < float64(longest) {
			longest, why = time.Duration(queue), weir.QueueFull
		}
	}
	if t.room.Closed() {
		longest, why = 0, weir.Closed
	}
	return longest, why
}

// wait waits. It reports whether the leaf has decided: if it has not, the upstream has to be
// asked.
func (w *tierWait) wait(ctx context.Context) (decided bool) {
	t, r, v := w.tier, w.r, w.r.V
	longest, why := w.patience()
	limited, stop := context.WithCancel(ctx)
	w.stop = stop
	defer stop()
	defer context.AfterFunc(t.dismissed, stop)()
	d, step, err := t.leaf.WaitWith(limited, r.terms.key(r.Req.Key), r.Req.N, longest, r.terms.policy, w.enter)
	waited := w.leave()
	*v = decider.Verdict{At: t.clock.Now(), Answers: v.Answers[:0], Waited: waited}
	rejection, rejected := err.(*weir.Rejection)
	switch {
	case err == nil && (step == leaf.Ask || t.crowded(r.terms, step)):
		return false
	case err == nil:
		if w.queued {
			r.terms.rule.Tally.Waits.Times.Add(waited)
		}
		t.decided(&r.Ask, r.terms, weir.Decision{OK: true, Remaining: d.Remaining, ResetAfter: d.ResetAfter}, step)
		v.Waited = waited
	case ctx.Err() != nil:
		if w.queued {
			r.terms.rule.Tally.Waits.Cancelled.Add(1)
		}
		r.Err = ctx.Err()
	case w.full:
		t.refuseWait(r, weir.QueueFull, 0, step)
	case !rejected: // the node is closing
		t.refuseWait(r, weir.Closed, waiting.DrainRetry, step)
	case step == leaf.ByRule && t.crowded(r.terms, step):
		return false
	case rejection.Reason == weir.OverRate && step != leaf.ByRule:
		t.refuseWait(r, why, rejection.RetryAfter, step)
	case rejection.Reason == weir.OverRate:
		t.decided(&r.Ask, r.terms, weir.Decision{RetryAfter: rejection.RetryAfter}, step)
	default:
		t.refuseWait(r, rejection.Reason, rejection.RetryAfter, step)
	}
	r.Whole = true
	return true
}

// waitThere waits at the upstream.
func (w *tierWait) waitThere(ctx context.Context) {
	t, r, v := w.tier, w.r, w.r.V
	req := *r.Req
	req.OnWait = w.enter
	err := t.askWaiting(ctx, func(ctx context.Context) error {
		ctx, w.stop = context.WithCancel(ctx)
		defer w.stop()
		if t.room.Closed() {
			return t.cfg.Upstream.Decide(ctx, &req, v)
		}
		return t.cfg.Upstream.Wait(ctx, &req, v)
	})
	w.leave()
	dismissed := t.dismissed.Err() != nil
	switch {
	case err == nil && !v.OK && v.Reason == weir.OverRate && t.room.Closed():
		*v = decider.Verdict{At: v.At, Answers: v.Answers[:0], Waited: v.Waited}
		t.refuseWait(r, weir.Closed, 0, leaf.Ask)
	case err == nil:
		t.asked(r)
	case err == errUpstream && (w.full || dismissed):
		*v = decider.Verdict{At: t.clock.Now(), Answers: v.Answers[:0]}
		why := weir.QueueFull
		if dismissed {
			why = weir.Closed
		}
		t.refuseWait(r, why, 0, leaf.Ask)
	case err == errUpstream:
		t.waitAway(ctx, r, w.again)
	default:
		r.Err = err
	}
}

// enter is called when the request has its place in the queue.
func (w *tierWait) enter() {
	if w.full = !w.tier.room.Enter(); w.full {
		w.stop()
		return
	}
	w.queued = true
	w.r.terms.rule.Tally.Waits.Waiting.Add(1)
	if w.r.Req.OnWait != nil {
		w.r.Req.OnWait()
	}
}

// leave ends enter, and returns how long the request has waited.
func (w *tierWait) leave() time.Duration {
	if !w.queued {
		return 0
	}
	w.tier.room.Leave()
	w.r.terms.rule.Tally.Waits.Waiting.Add(-1)
	return time.Since(w.began)
}

// refuseWait makes the verdict of a request that may not wait.
func (t *Tier) refuseWait(r *tierRequest, why weir.Reason, retry time.Duration, step leaf.Step) {
	v := r.V
	if why == weir.Closed {
		retry = waiting.DrainRetry
	}
	if v.Rule, r.Whole = r.First(), true; step != leaf.Ask {
		v.Step = t.stepOf(step)
	}
	r.Answer(weir.Decision{RetryAfter: retry}, r.terms.rule.Ref)
	v.Deny(why, retry)
}

// waitAway waits for the node's share, or decides as the rules say.
func (t *Tier) waitAway(ctx context.Context, r *tierRequest, again func(*counts.Asked) bool) {
	c := choose(r.Found, t.cfg.Away)
	*r.V = decider.Verdict{At: t.clock.Now(), Answers: r.V.Answers[:0]}
	t.awaitAlone(ctx, r.Asked, again, &c, tierRetry)
}
