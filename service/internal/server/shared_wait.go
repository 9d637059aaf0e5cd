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

// await has the store reserve tokens of token buckets ahead of time, under all rules at once, so
// turns are in order of arrival there. Windows have no order: a request asks again when the window
// has room.
//
// A rule's queue bounds the tokens that are reserved, as if all requests had this cost. While the
// store does not answer, the request waits for the node's share.
func (s stored) await(ctx context.Context, a asked) asked {
	for w := (sharedWait{s: s.Shared, ctx: ctx, req: a.req, v: a.v, began: time.Now()}); w.try(&a); {
		if a = s.find(a.req, a.v); a.settled || a.err != nil {
			break
		}
	}
	return a
}

// A sharedWait is a request that waits.
type sharedWait struct {
	s     *Shared
	ctx   context.Context
	req   *decider.Request
	v     *decider.Verdict
	began time.Time
	told  bool // OnWait was called
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
func (w *sharedWait) try(of *asked) (again bool) {
	s := w.s
	a, err := s.prepare(of, func(r *rule) time.Duration {
		if w.req.N > r.Within(r.OwnLimit(s.ownLimit(w.req))) {
			return 0 // no wait helps
		}
		longest, _ := w.patience(r)
		return longest
	})
	if err == nil && len(a.buckets) == 0 {
		err = memory{s.Server}.takeWith(&of.ask, nil)
	}
	if of.err = err; err != nil || len(a.buckets) == 0 {
		return false
	}
	switch err := s.ask(w.ctx, a); {
	case err != nil && w.ctx.Err() != nil:
		a.err = w.ctx.Err()
	case err != nil:
		s.waitAway(w.ctx, a)
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
func (w *sharedWait) sleep(r *rule, d time.Duration) weir.Reason {
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
func (w *sharedWait) end(a *asking, r *rule, why weir.Reason) {
	if why == callerLeft {
		a.err = w.ctx.Err()
	} else {
		w.s.refuseWait(a, r, why, 0)
	}
}

// refused ends the wait of a request that could not reserve its tokens or, if a window
// denies, waits until it has room and reports that the request is to ask again.
func (w *sharedWait) refused(a *asking) (again bool) {
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
func (s *Shared) refuseWait(a *asking, r *rule, why weir.Reason, retry time.Duration) {
	s.steps[decider.Exact].Add(1)
	if why == weir.Closed {
		retry = waiting.DrainRetry
	}
	a.v.At, a.v.Reason = s.clock.Now(), why
	a.answer(weir.Decision{RetryAfter: retry}, r.Ref)
}

// waitAway waits for the node's share while the store does not answer.
func (s *Shared) waitAway(ctx context.Context, a *asking) {
	c := s.choose(a)
	a.v.At = s.clock.Now()
	if s.awaitAlone(ctx, a.asked, &c, a.lane.RetryAfter()); !a.refused() {
		s.owe(a)
	}
}
