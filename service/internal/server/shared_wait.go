package server

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Wait waits for missing tokens: see decider.Decider. The store reserves tokens of token
// buckets ahead of time, under all rules at once, so turns are in order of arrival there.
// Windows have no order: a request asks again when the window has room.
//
// A rule's queue bounds the tokens that are reserved, as if all requests had this cost. While the
// store does not answer, the request waits for the node's share.
func (s *Shared) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if req.Quota != nil || req.N <= 0 {
		return s.Decide(ctx, req, v)
	}
	w := sharedWait{s: s, ctx: ctx, req: req, began: time.Now()}
	for {
		again, err := w.try(v)
		v.Waited, v.Place = w.waited, w.place
		if !again || err != nil {
			return err
		}
	}
}

// A sharedWait is a request that waits.
type sharedWait struct {
	s      *Shared
	ctx    context.Context
	req    *decider.Request
	began  time.Time
	told   bool // OnWait was called
	waited time.Duration
	place  int
}

// patience returns how long the request may still wait under a rule, and why not longer.
func (w *sharedWait) patience(r *rule) (time.Duration, weir.Reason) {
	longest, why := left(r.MaxWait, time.Since(w.began)), weir.OverRate
	if deadline, ok := w.ctx.Deadline(); ok && time.Until(deadline) < longest {
		longest, why = max(time.Until(deadline), 0), weir.TooLate
	}
	size := config.QueueSize(r.Queue)
	if w.req.OwnQueue && w.s.Server.cfg.MaxQueue > 0 {
		size = min(w.req.Queue, w.s.Server.cfg.MaxQueue)
	}
	if r.Interval > 0 {
		if queue := float64(size) * float64(w.req.N) * r.Interval; queue < float64(longest) {
			longest, why = time.Duration(queue), weir.QueueFull
		}
	}
	if w.s.room.Closed() {
		longest, why = 0, weir.Closed
	}
	return longest, why
}

// try asks once, and waits for what is reserved. It reports whether to ask again.
func (w *sharedWait) try(v *decider.Verdict) (again bool, err error) {
	s, rs := w.s, w.s.rules.Load()
	*v = decider.Verdict{At: s.clock.Now(), Answers: v.Answers[:0]}
	a, err := s.prepare(&asked{ask: ask{Found: s.keys.Find(w.req.Key, rs.Set), rs: rs, req: w.req, v: v}}, func(r *rule) time.Duration {
		if w.req.N > r.Within(r.OwnLimit(s.ownLimit(w.req))) {
			return 0 // no wait helps
		}
		longest, _ := w.patience(r)
		return longest
	})
	if err != nil {
		return false, err
	}
	if len(a.buckets) == 0 {
		return false, s.Server.Decide(w.ctx, w.req, v)
	}
	switch err := s.ask(w.ctx, a); {
	case err != nil && w.ctx.Err() != nil:
		return false, w.ctx.Err()
	case err != nil:
		return false, s.waitAway(w.ctx, a)
	case a.reply.Granted:
		return false, w.turn(a)
	}
	return w.refused(a)
}

// turn waits for the turn of a request with reserved tokens.
func (w *sharedWait) turn(a *asking) error {
	s, wait := w.s, a.wait()
	if wait > 0 {
		r, ahead := a.longest()
		w.place = ahead
		if why := w.enter(r); why != 0 {
			s.giveBackStored(a.buckets, &a.reply)
			s.refuseWait(a, r, why, wait)
			return nil
		}
		if why := w.sleep(r, wait); why != 0 {
			s.giveBackStored(a.buckets, &a.reply)
			return w.ended(a, r, why)
		}
	}
	s.answered(a)
	s.conclude(&a.ask, false, true)
	return nil
}

// longest returns the rule with the longest wait, and how many requests of this cost have
// reserved tokens before it.
func (a *asking) longest() (r *rule, ahead int) {
	var most time.Duration
	for i, rated := range a.rs.list(a.Rated) {
		at, b := a.bucket(i)
		if b.take.Ahead <= 0 {
			continue
		}
		if wait := a.reply.Wait(at, &b.quota); wait > most {
			most, r = wait, rated
			ahead = max(a.reply.Used(at, &b.quota)-rated.Within(0)-1, 0) / max(a.req.N, 1)
		}
	}
	return r, ahead
}

// enter enters the room of requests that wait, unless it is full.
func (w *sharedWait) enter(r *rule) weir.Reason {
	switch {
	case w.s.room.Closed():
		return weir.Closed
	case !w.s.room.Enter():
		return weir.QueueFull
	}
	r.counts.queue.Waiting.Add(1)
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
func (w *sharedWait) sleep(r *rule, d time.Duration) weir.Reason {
	start := time.Now()
	why := w.s.pause(w.ctx, d)
	w.waited += time.Since(start)
	w.s.room.Leave()
	r.counts.queue.Waiting.Add(-1)
	switch why {
	case 0:
		r.counts.queue.Times.Add(w.waited)
	case callerLeft:
		r.counts.queue.Cancelled.Add(1)
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

// ended ends a wait that sleep has ended early.
func (w *sharedWait) ended(a *asking, r *rule, why weir.Reason) error {
	if why == callerLeft {
		return w.ctx.Err()
	}
	w.s.refuseWait(a, r, why, 0)
	return nil
}

// refused ends the wait of a request that could not reserve its tokens or, if a window
// denies, waits until it has room and reports that the request is to ask again.
func (w *sharedWait) refused(a *asking) (again bool, err error) {
	s := w.s
	for i, r := range a.rs.list(a.Rated) {
		at, b := a.bucket(i)
		if r.Mode == config.Shadow || !a.reply.Denied(at, &b.quota, &b.take) {
			continue
		}
		retry := a.reply.Until(at, &b.quota, &redisscript.Take{N: w.req.N, Least: w.req.N})
		longest, why := w.patience(r)
		if w.req.N > r.Within(r.OwnLimit(s.ownLimit(w.req))) {
			retry, why = weir.Never, weir.OverBurst
		}
		if r.Interval == 0 && retry <= longest {
			if why = w.enter(r); why == 0 {
				if why = w.sleep(r, retry+rand.N(maxJitter)); why != 0 {
					return false, w.ended(a, r, why)
				}
				return true, nil
			}
		}
		s.refuseWait(a, r, why, retry)
		return false, nil
	}
	s.answered(a)
	s.conclude(&a.ask, false, true)
	return false, nil
}

// maxJitter spreads requests that wait for the same window.
const maxJitter = 20 * time.Millisecond

// refuseWait makes the verdict of a request that may not wait.
func (s *Shared) refuseWait(a *asking, r *rule, why weir.Reason, retry time.Duration) {
	s.steps[decider.Exact].Add(1)
	if why == weir.Closed {
		retry = waiting.DrainRetry
	}
	a.v.At, a.v.Reason = s.clock.Now(), why
	a.answer(weir.Decision{RetryAfter: retry}, r.Ref)
	s.conclude(&a.ask, false, true)
}

// waitAway waits for the node's share while the store does not answer.
func (s *Shared) waitAway(ctx context.Context, a *asking) error {
	c := s.choose(a)
	if c.step == decider.ByRule {
		s.takeAway([]*asking{a}, false)
		if a.err == nil {
			s.conclude(&a.ask, false, true)
		}
		return a.err
	}
	v := a.v
	if err := s.Server.Wait(ctx, a.req, v); err != nil {
		return err
	}
	if v.Step = c.step; v.OK {
		s.owe(a)
	}
	s.ladder.note(a.req.Key, v)
	return nil
}
