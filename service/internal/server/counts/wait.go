package counts

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Line is where a request can wait: in the Queue of a rule, for tokens of a bucket.
type Line struct {
	Rule            *rules.Rule
	Queue           *quota.Queue
	Bucket          string // in the Queue
	Slot            uint16 // of the key
	OwnLimit, Limit int    // see quota.Request
	MaxQueue        int    // requests that may wait
}

// Line returns where a request waits under a rule.
func (b Bounds) Line(req *decider.Request, r *rules.Rule, q *quota.Queue, bucket string) Line {
	own := r.OwnLimit(b.Limit(req))
	return Line{Rule: r, Queue: q, Bucket: bucket, Slot: r.Route(bucket), OwnLimit: own, Limit: own, MaxQueue: b.Queue(req, r)}
}

// A Wait is a request that waits in Lines, in order of arrival. If the rules change meanwhile, the request goes on to wait at
// the first of the new rules that would make it wait, before it is decided again: see Move.
type Wait struct {
	caller
	next   *quota.Waiter // where the request waits now; nil if it does not
	at     *quota.Waiter // that has received the answer; nil if there is none
	answer quota.Result

	redeemed bool // the last answer came by a wait
}

// A caller is the part of a Wait that goes with a request from Line to Line.
type caller struct {
	ctx     context.Context
	req     decider.Request
	arrival uint64        // of its first wait; 0 before that
	moved   bool          // a change of the rules has ended a wait
	spent   time.Duration // in waits that a change of the rules has ended
}

var waits = sync.Pool{New: func() any { return new(Wait) }}

// Await does Counts.Await by a function that takes for a request: it asks Wait.Redeem for each rule before it takes, and
// Wait.Under when a rule denies.
func Await(ctx context.Context, a *Asked, again func(*Asked) bool, take func(*Ask, *Wait) error) {
	w := waits.Get().(*Wait)
	defer func() { *w = Wait{}; waits.Put(w) }()
	for w.ctx, w.req = ctx, *a.Req; ; {
		a.Err = take(&a.Ask, w)
		w.giveBack()
		if a.Err != waiting.ErrMoved {
			return
		}
		if a.Err = w.follow(a.V); a.Err != nil {
			return
		}
		if !again(a) {
			w.giveBack()
			return
		}
	}
}

// giveBack returns the tokens of an answer that no rule has taken.
func (w *Wait) giveBack() {
	if w.at != nil && w.answer.OK {
		w.at.Return()
	}
}

// Redeem returns the answer of a wait in a queue, once. Of a request that does not wait, w is nil.
func (w *Wait) Redeem(q *quota.Queue) (d weir.Decision, ok bool) {
	if w == nil {
		return d, false
	}
	if w.redeemed = w.at != nil && w.at.Queue == q; !w.redeemed {
		return d, false
	}
	w.at = nil
	return w.answer.Decision, true
}

// Under waits for the tokens that the last answer denies, if that can help. It completes the answer, and sets the Reason of the
// Verdict if the request is refused.
func (w *Wait) Under(a *Ask, l Line) (granted bool, err error) {
	v := a.V
	answer := &v.Answers[len(v.Answers)-1]
	switch {
	case w == nil:
		return false, nil
	case w.redeemed:
		v.Reason = w.answer.Reason
		return false, nil
	case answer.RetryAfter == weir.Never:
		return false, nil
	}
	ask := w.request(&l, a.Set)
	ask.OnWait = w.req.OnWait
	if w.moved {
		ask.Arrival = w.arrival
	}
	res, err := l.Queue.Wait(w.ctx, ask)
	v.Waited += res.Waited
	w.arrival = cmp.Or(w.arrival, res.Arrival)
	if !w.moved {
		v.Place += res.Place
	}
	switch v.Reason = res.Reason; {
	case err != nil:
		w.next, w.spent = res.Next, w.spent+res.Waited
	case res.Reason != 0:
		answer.RetryAfter = res.RetryAfter
	default:
		v.At = l.Queue.Now()
		answer.Decision, answer.At = res.Decision, v.At
		if v.Grant.At > 0 {
			v.Grant.At = max(v.Grant.At, v.At)
		}
	}
	return err == nil && res.Reason == 0, err
}

// request returns what a caller asks of a Line.
func (c *caller) request(l *Line, set *rules.Set) *quota.Request {
	return &quota.Request{
		Slot: l.Slot, Bucket: l.Bucket, N: c.req.N, OwnLimit: l.OwnLimit, Limit: l.Limit, Tracked: c.req.WantID, Stats: &l.Rule.Tally.Waits,
		MaxQueue: l.MaxQueue, MaxWait: Left(l.Rule.MaxWait, c.spent), Rules: set.ID, Caller: *c,
	}
}

// follow waits where the request waits after a change of the rules. It returns the error of the context.
func (w *Wait) follow(v *decider.Verdict) error {
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

// Move has the requests that wait in some queues under rules before do so under the next rules, in order of arrival. It
// reserves their places now; done moves them, once the rules are in force, and serves the queues. lineOf returns where a request
// waits under a rule. A request stays where it is as stays says or, if that is nil, if it waits there under the next rules too.
func Move(queues iter.Seq[*quota.Queue], next *rules.Set, lineOf func(*rules.Rule, *decider.Request) Line, stays func(*decider.Request) bool) (done func()) {
	reserved := reserve(queues, next, lineOf, stays)
	return func() {
		for q := range queues {
			q.Outdate(next.ID)
		}
		perform(reserved)
		perform(reserve(queues, next, lineOf, stays)) // requests that have begun to wait meanwhile
		for q := range queues {
			q.ServeAll()
		}
	}
}

// A move is a request that waits elsewhere once the rules have changed; nowhere if to is nil.
type move struct{ from, to *quota.Waiter }

func reserve(queues iter.Seq[*quota.Queue], next *rules.Set, lineOf func(*rules.Rule, *decider.Request) Line, stays func(*decider.Request) bool) (all []move) {
	var waiters []*quota.Waiter
	for q := range queues {
		waiters = append(waiters, q.Waiters(next.ID)...)
	}
	slices.SortFunc(waiters, func(a, b *quota.Waiter) int { return cmp.Compare(arrival(a), arrival(b)) })
	for _, from := range waiters {
		c := from.Caller.(caller)
		if stays != nil && stays(&c.req) {
			continue
		}
		rated, to := next.Find(c.req.Key).Rated, (*quota.Waiter)(nil)
		if i := slices.IndexFunc(rated, func(r *rules.Rule) bool { return r.Mode != config.Shadow }); i >= 0 {
			l := lineOf(rated[i], &c.req)
			if stays == nil && l.Queue == from.Queue {
				continue
			}
			c.arrival, c.moved = arrival(from), true
			c.spent += l.Queue.Now() - from.Since
			ask := c.request(&l, next)
			ask.Arrival = c.arrival
			to = l.Queue.Reserve(c.ctx, ask)
		}
		all = append(all, move{from, to})
	}
	return all
}

func perform(moves []move) {
	for _, m := range moves {
		m.from.Move(m.to)
	}
}

func arrival(w *quota.Waiter) uint64 { return cmp.Or(w.Caller.(caller).arrival, w.Arrived) }
