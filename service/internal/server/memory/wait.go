package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
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

// Await waits in order of arrival, and again if the rules change: see counts.Counts.
func (m *Counts) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	for w := (wait{caller: caller{ctx: ctx, req: *a.Req}}); ; {
		v := m.find(a.Set)
		if v == nil {
			a.Err = waiting.ErrMoved
		} else {
			a.Err = m.take(v, &a.Ask, &w)
			if w.at != nil && w.answer.OK { // no rule has taken the answer
				w.at.Return()
			}
		}
		if a.Err != waiting.ErrMoved {
			return
		}
		if a.Err = w.follow(a.V); a.Err != nil || !again(a) {
			return
		}
	}
}

// waitUnder waits for the tokens of the rule with the last answer. It returns the reason
// of a refusal, and sets RetryAfter in the answer.
func (m *Counts) waitUnder(of *Version, w *wait, r *Rule, ownLimit int, v *decider.Verdict) (weir.Reason, error) {
	ask := m.queueRequest(of, &w.caller, r, ownLimit)
	ask.MaxWait, ask.OnWait = counts.Left(r.MaxWait, w.spent), w.req.OnWait
	if w.moved {
		ask.Arrival = w.arrival
	}
	res, err := r.Queue.Wait(w.ctx, ask)
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
		v.At = m.clock.Now()
		answer.Decision, answer.At = res.Decision, v.At
		if v.Grant.At > 0 {
			v.Grant.At = max(v.Grant.At, v.At)
		}
	}
	return res.Reason, err
}

// queueRequest returns the request of a caller for the queue of a rule.
func (m *Counts) queueRequest(of *Version, c *caller, r *Rule, ownLimit int) *quota.Request {
	return &quota.Request{
		Slot: r.Route(r.Bucket(c.req.Key)), Bucket: r.Bucket(c.req.Key), N: c.req.N, OwnLimit: ownLimit, Limit: r.limitFor(ownLimit), Stats: &r.Tally.Waits,
		MaxQueue: m.cfg.Queue(&c.req, r.Rule), Rules: of.ID, Caller: *c, Settled: c.req.WantID,
	}
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
func (w *wait) redeem(r *Rule) (d weir.Decision, why weir.Reason, ok bool) {
	if w == nil || w.at == nil || w.at.Queue != &r.State.Queue {
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
func (m *Counts) moves(old, next *Version, rated map[string][]Rule) (all []move) {
	for st := range old.States {
		for _, w := range st.Queue.Waiters(next.ID) {
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
		all[i].to = m.reserve(next, rated[w.Caller.(caller).req.Key], w)
	}
	return all
}

// sameRules reports whether a request waits under one list of rules as under the other.
func sameRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(a, b Rule) bool {
		return a.State == b.State && a.Mode == b.Mode && a.MaxWait == b.MaxWait && a.base == b.base
	})
}

func arrival(w *quota.Waiter) uint64 { return cmp.Or(w.Caller.(caller).arrival, w.Arrived) }

// reserve reserves a place under the first rule that can make a request wait; nil if
// there is none, or if the request may not wait there.
func (m *Counts) reserve(next *Version, rated []Rule, w *quota.Waiter) *quota.Waiter {
	c := w.Caller.(caller)
	c.arrival, c.moved = arrival(w), true
	c.spent += m.clock.Now() - w.Since
	for i := range rated {
		if r := &rated[i]; r.Mode != config.Shadow {
			ask := m.queueRequest(next, &c, r, r.OwnLimit(m.cfg.Limit(&c.req)))
			ask.MaxWait, ask.Arrival = counts.Left(r.MaxWait, c.spent), c.arrival
			return r.Queue.Reserve(c.ctx, ask)
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
