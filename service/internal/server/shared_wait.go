package server

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Await has the store reserve tokens of token buckets ahead of time, under all rules at once, so
// turns are in order of arrival there. Windows have no order: a request asks again when the window
// has room.
//
// A rule's queue bounds the tokens that are reserved, as if all requests had this cost. While the
// store does not answer, the request waits for the node's share.
func (s stored) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	for w := (sharedWait{s: s.Shared, ctx: ctx, req: a.Req, v: a.V, began: time.Now(), again: again}); w.try(a) && again(a); {
	}
}

// A sharedWait is a request that waits.
type sharedWait struct {
	s     *Shared
	ctx   context.Context
	req   *decider.Request
	v     *decider.Verdict
	began time.Time
	told  bool // OnWait was called
	again func(*counts.Asked) bool
}

// patience returns how long the request may still wait under a rule, and why not longer.
func (w *sharedWait) patience(r *rules.Rule) (time.Duration, weir.Reason) {
	longest, why := counts.Left(r.MaxWait, time.Since(w.began)), weir.OverRate
	if deadline, ok := w.ctx.Deadline(); ok && time.Until(deadline) < longest {
		longest, why = max(time.Until(deadline), 0), weir.TooLate
	}
	if r.Interval > 0 {
		if queue := float64(w.s.bounds.Queue(w.req, r)) * float64(w.req.N) * r.Interval; queue < float64(longest) {
			longest, why = time.Duration(queue), weir.QueueFull
		}
	}
	if w.s.room.Closed() {
		longest, why = 0, weir.Closed
	}
	return longest, why
}

// try asks once, and waits for what is reserved. It reports whether to ask again.
func (w *sharedWait) try(of *counts.Asked) (again bool) {
	s := w.s
	a, err := s.prepare(of, func(r *rules.Rule) time.Duration {
		if w.req.N > r.Within(r.OwnLimit(s.bounds.Limit(w.req))) {
			return 0 // no wait helps
		}
		longest, _ := w.patience(r)
		return longest
	})
	if err == nil && len(a.buckets) == 0 {
		_, err = s.memory.Take(w.ctx, of.Ask)
	}
	if of.Err = err; err != nil || len(a.buckets) == 0 {
		return false
	}
	switch err := s.ask(w.ctx, a); {
	case err != nil && w.ctx.Err() != nil:
		a.Err = w.ctx.Err()
	case err != nil:
		s.waitAway(w.ctx, a, w.again)
	case a.reply.Granted:
		w.turn(a)
	default:
		return w.refused(a)
	}
	return false
}

// turn waits for the turn of a request with reserved tokens.
func (w *sharedWait) turn(a *asking) {
	s, wait := w.s, a.wait()
	if wait > 0 {
		r, ahead := a.longest()
		w.v.Place = ahead
		if why := w.enter(r); why != 0 {
			s.giveBackStored(a.buckets, &a.reply)
			s.refuseWait(a, r, why, wait)
			return
		}
		if why := w.sleep(r, wait); why != 0 {
			s.giveBackStored(a.buckets, &a.reply)
			w.end(a, r, why)
			return
		}
	}
	s.answered(a)
}

// longest returns the rule with the longest wait, and how many requests of this cost have
// reserved tokens before it.
func (a *asking) longest() (r *rules.Rule, ahead int) {
	var most time.Duration
	for i, rated := range a.Rated {
		at, b := a.bucket(i)
		if b.take.Ahead <= 0 {
			continue
		}
		if wait := a.reply.Wait(at, &b.quota); wait > most {
			most, r = wait, rated
			ahead = max(a.reply.Used(at, &b.quota)-rated.Within(0)-1, 0) / max(a.Req.N, 1)
		}
	}
	return r, ahead
}

// enter enters the room of requests that wait, unless it is full.
func (w *sharedWait) enter(r *rules.Rule) weir.Reason {
	switch {
	case w.s.room.Closed():
		return weir.Closed
	case !w.s.room.Enter():
		return weir.QueueFull
	}
	r.Tally.Waits.Waiting.Add(1)
	if !w.told && w.req.OnWait != nil {
		w.req.OnWait()
		w.told = true
	}
	return 0
}

// callerLeft is the end of a wait because the caller has left.
const callerLeft = weir.Overdue

// sleep waits after enter. It returns why the wait ended early: Closed if the node does not
// let requests wait any longer, callerLeft, or 0.
func (w *sharedWait) sleep(r *rules.Rule, d time.Duration) weir.Reason {
	start := time.Now()
	why := w.s.pause(w.ctx, d)
	w.v.Waited += time.Since(start)
	w.s.room.Leave()
	r.Tally.Waits.Waiting.Add(-1)
	switch why {
	case 0:
		r.Tally.Waits.Times.Add(w.v.Waited)
	case callerLeft:
		r.Tally.Waits.Cancelled.Add(1)
	}
	return why
}

// pause waits for a time. It returns why it ended early, as sleep does.
func (s *Shared) pause(ctx context.Context, d time.Duration) weir.Reason {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-ctx.Done():
		return callerLeft
	case <-s.dismissed.Done():
		return weir.Closed
	}
}

// end ends a wait that sleep has ended early.
func (w *sharedWait) end(a *asking, r *rules.Rule, why weir.Reason) {
	if why == callerLeft {
		a.Err = w.ctx.Err()
	} else {
		w.s.refuseWait(a, r, why, 0)
	}
}

// refused ends the wait of a request that could not reserve its tokens or, if a window
// denies, waits until it has room and reports that the request is to ask again.
func (w *sharedWait) refused(a *asking) (again bool) {
	s := w.s
	for i, r := range a.Rated {
		at, b := a.bucket(i)
		if r.Mode == config.Shadow || !a.reply.Denied(at, &b.quota, &b.take) {
			continue
		}
		retry := a.reply.Until(at, &b.quota, &redisscript.Take{N: w.req.N, Least: w.req.N})
		longest, why := w.patience(r)
		if w.req.N > r.Within(r.OwnLimit(s.bounds.Limit(w.req))) {
			retry, why = weir.Never, weir.OverBurst
		}
		if r.Interval == 0 && retry <= longest {
			if why = w.enter(r); why == 0 {
				if why = w.sleep(r, retry+rand.N(maxJitter)); why != 0 {
					w.end(a, r, why)
				}
				return why == 0
			}
		}
		s.refuseWait(a, r, why, retry)
		return false
	}
	s.answered(a)
	return false
}

// maxJitter spreads requests that wait for the same window.
const maxJitter = 20 * time.Millisecond

// refuseWait answers a request that may not wait.
func (s *Shared) refuseWait(a *asking, r *rules.Rule, why weir.Reason, retry time.Duration) {
	s.steps[decider.Exact].Add(1)
	if why == weir.Closed {
		retry = waiting.DrainRetry
	}
	a.V.At, a.V.Reason = s.clock.Now(), why
	a.Answer(weir.Decision{RetryAfter: retry}, r.Ref)
}

// waitAway waits for the node's share while the store does not answer.
func (s *Shared) waitAway(ctx context.Context, a *asking, again func(*counts.Asked) bool) {
	c := s.choose(a)
	a.V.At = s.clock.Now()
	if s.awaitAlone(ctx, a.Asked, again, &c, a.lane.RetryAfter()); !a.Refused() {
		s.owe(a)
	}
}
