package server

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A caller is a request that waits.
type caller struct {
	ctx     context.Context
	req     decider.Request
	arrival uint64        // of its first wait; 0 before that
	moved   bool          // a change of the rules has ended a wait
	spent   time.Duration // in waits that a change of the rules has ended
}

// A wait is the state of a request that may wait. If the rules change meanwhile, the
// request goes on to wait at the first of the new rules that would make it wait, before
// it is decided again: see moves.
type wait struct {
	caller
	next   *quota.Waiter // where the request waits now; nil if it does not
	at     *quota.Waiter // that has received the answer; nil if there is none
	answer quota.Result
}

// await waits again if the rules change.
func (s memory) await(ctx context.Context, a asked) asked {
	for w := (wait{caller: caller{ctx: ctx, req: *a.req}}); ; {
		a.err = s.takeWith(&a.ask, &w)
		if w.at != nil && w.answer.OK { // no rule has taken the answer
			w.at.Return()
		}
		if a.err != waiting.ErrMoved {
			return a
		}
		if a.err = w.follow(a.v); a.err != nil {
			return a
		}
		if a = s.find(a.req, a.v); a.settled || a.err != nil {
			return a
		}
	}
}

// waitUnder waits for the tokens of the rule with the last answer. It returns the reason
// of a refusal, and sets RetryAfter in the answer.
func (s *Server) waitUnder(rs *version, w *wait, r *rule, ownLimit int, v *decider.Verdict) (weir.Reason, error) {
	ask := s.queueRequest(rs, &w.caller, r, ownLimit)
	ask.MaxWait, ask.OnWait = left(r.MaxWait, w.spent), w.req.OnWait
	if w.moved {
		ask.Arrival = w.arrival
	}
	res, err := r.queue.Wait(w.ctx, ask)
	v.Waited += res.Waited
	w.arrival = cmp.Or(w.arrival, res.Arrival)
	if !w.moved {
		v.Place += res.Place
	}
	answer := &v.Answers[len(v.Answers)-1]
	switch {
	case err != nil:
		w.next, w.spent = res.Next, w.spent+res.Waited
	case res.Reason != 0:
		answer.RetryAfter = res.RetryAfter
	default:
		v.At = s.clock.Now()
		answer.Decision, answer.At = res.Decision, v.At
	}
	return res.Reason, err
}

// queueRequest returns the request of a caller for the queue of a rule.
func (s *Server) queueRequest(rs *version, c *caller, r *rule, ownLimit int) *quota.Request {
	size := config.QueueSize(r.Queue)
	if c.req.OwnQueue && s.cfg.MaxQueue > 0 {
		size = min(c.req.Queue, s.cfg.MaxQueue)
	}
	return &quota.Request{
		Slot: r.Route(r.Bucket(c.req.Key)), Bucket: r.Bucket(c.req.Key), N: c.req.N, OwnLimit: ownLimit, Limit: r.limitFor(ownLimit), Stats: &r.Tally.Waits,
		MaxQueue: size, Rules: rs.ID, Caller: *c, Settled: c.req.WantID,
	}
}

// left returns what is left of a bound on waits; 0 if there is no bound.
func left(maxWait, spent time.Duration) time.Duration {
	if maxWait == 0 {
		return 0
	}
	return max(maxWait-spent, 1)
}

// follow waits where the request waits after a change of the rules. The error is that
// of the context.
func (w *wait) follow(v *decider.Verdict) error {
	w.moved, w.at = true, nil
	for w.next != nil {
		at := w.next
		res, err := at.Await(w.ctx)
		v.Waited += res.Waited
		w.next = res.Next
		switch err {
		case nil:
			w.at, w.answer = at, res
			return nil
		case waiting.ErrMoved:
			w.spent += res.Waited
		default:
			return err
		}
	}
	return nil
}

// redeem returns the answer of a wait under a rule, once.
func (w *wait) redeem(r *rule) (d weir.Decision, why weir.Reason, ok bool) {
	if w == nil || w.at == nil || w.at.Queue != &r.queue {
		return d, 0, false
	}
	w.at = nil
	return w.answer.Decision, w.answer.Reason, true
}

// A move is a request that waits under other rules when the rules change.
type move struct{ from, to *quota.Waiter }

// moves reserves a place for each request that waits under the old rules while others
// count for its key, in order of arrival. The other requests stay where they are. rated
// has the next rules of the keys that were looked up; nil for a key that keeps its rules.
func (s *Server) moves(old, next *version, rated map[string][]*rule) (all []move) {
	for st := range old.states {
		for _, w := range st.queue.Waiters(next.ID) {
			key := w.Caller.(caller).req.Key
			list, known := rated[key]
			if !known {
				if is := next.list(next.Find(key).Rated); !sameRules(old.list(old.Find(key).Rated), is) {
					list = is
				}
				rated[key] = list
			}
			if list != nil {
				all = append(all, move{from: w})
			}
		}
	}
	slices.SortFunc(all, func(a, b move) int { return cmp.Compare(arrival(a.from), arrival(b.from)) })
	for i := range all {
		w := all[i].from
		all[i].to = s.reserve(next, rated[w.Caller.(caller).req.Key], w)
	}
	return all
}

// sameRules reports whether a request waits under one list of rules as under the other.
func sameRules(a, b []*rule) bool {
	return slices.EqualFunc(a, b, func(a, b *rule) bool {
		return a.state == b.state && a.Mode == b.Mode && a.MaxWait == b.MaxWait && a.baseLimit == b.baseLimit
	})
}

func arrival(w *quota.Waiter) uint64 { return cmp.Or(w.Caller.(caller).arrival, w.Arrived) }

// reserve reserves a place under the first rule that can make a request wait; nil if
// there is none, or if the request may not wait there.
func (s *Server) reserve(next *version, rated []*rule, w *quota.Waiter) *quota.Waiter {
	c := w.Caller.(caller)
	c.arrival, c.moved = arrival(w), true
	c.spent += s.clock.Now() - w.Since
	for _, r := range rated {
		if r.Mode != config.Shadow {
			ask := s.queueRequest(next, &c, r, r.OwnLimit(s.ownLimit(&c.req)))
			ask.MaxWait, ask.Arrival = left(r.MaxWait, c.spent), c.arrival
			return r.queue.Reserve(c.ctx, ask)
		}
	}
	return nil
}

// perform moves the requests.
func perform(all []move) {
	for _, m := range all {
		m.from.Move(m.to)
	}
}
