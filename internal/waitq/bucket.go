package waitq

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/retrystep"
)

// A TokenQueue is the calls that wait for the tokens of one gcra.Bucket, and the
// promises of tokens to come. Its owner holds a lock around all methods, and calls
// Serve after every event that can bring a turn forward. The zero TokenQueue is empty.
type TokenQueue struct {
	Tokens[tokenCall]
	Timer
}

// A TokenWaiter is a call in a TokenQueue.
type TokenWaiter = Turn[tokenCall]

// A tokenCall is answered with nil, or why it is refused.
type tokenCall struct {
	Call[error]
	deadline time.Duration
	why      weir.Reason // of the refusal if its turn would come later than that
}

// Join lets a call wait for n tokens; b is the Bucket that was reserved for it.
// If its turn is put off beyond the deadline, it is refused for the reason why.
func (l *TokenQueue) Join(q *gcra.Quota, b gcra.Bucket, n int, deadline time.Duration, why weir.Reason) *TokenWaiter {
	return l.Tokens.Join(q, b, n, tokenCall{NewCall[error](), deadline, why})
}

// Serve answers all calls that have their turn, and sets the timer for the next.
func (l *TokenQueue) Serve(q *gcra.Quota, now time.Duration) {
	for {
		w, ok := l.Next(q, now)
		if !ok {
			break
		}
		w.Answer(nil)
	}
	if l.Len() == 0 {
		l.Stop()
	} else {
		l.Arm(now, l.Deadline(q))
	}
}

// A Bucket is where the owner of a TokenQueue keeps its gcra.Bucket: under its lock, or
// shared with calls that take none.
type Bucket interface {
	Load() gcra.Bucket
	CompareAndSwap(old, b gcra.Bucket) bool
}

// lower lowers a Bucket, because tokens were given back.
func lower(b Bucket, down gcra.Bucket) {
	for was := b.Load(); !b.CompareAndSwap(was, was-min(down, was)); {
		was = b.Load()
	}
}

// Change puts all calls that wait under another Quota, of which b is the Bucket. It refuses
// the calls that would have their turn too late, or that wait for more than the burst.
func (l *TokenQueue) Change(from *gcra.Quota, now time.Duration, to *gcra.Quota, b Bucket) {
	l.Move(from, now, to)
	lower(b, l.Drop(to, now, b.Load(), func(w *TokenWaiter, _ time.Duration) bool {
		over := w.n > to.Burst()
		if over {
			w.Value.Answer(weir.Reject(weir.OverBurst, weir.Never))
		}
		return over
	}))
	lower(b, l.dropLate(to, now, b.Load()))
	l.Serve(to, now)
}

// Debt returns the debt that a Config's field MaxDebt allows: the burst if it is zero, none
// if it is negative.
func Debt(maxDebt int, q *gcra.Quota) int {
	if maxDebt == 0 {
		return q.Burst()
	}
	return max(maxDebt, 0)
}

// Charge takes n tokens, those to come included, into a debt of up to maxDebt, and returns
// how many it took. It puts off the calls that wait, and refuses a call that would have its
// turn too late.
func (l *TokenQueue) Charge(q *gcra.Quota, now time.Duration, n, maxDebt int, b Bucket) int {
	l.Serve(q, now)
	maxDebt += min(l.Taken(q, now), math.MaxInt-maxDebt) // those are no debt of this work
	for {
		was := b.Load()
		next, took := q.Charge(was, now, n, maxDebt)
		if !b.CompareAndSwap(was, next) {
			continue
		}
		if took > 0 {
			l.Delay(q, took)
			lower(b, l.dropLate(q, now, next))
			l.Serve(q, now)
		}
		return took
	}
}

// GiveBack returns n tokens that were taken with a Promise, or with the zero Promise if they
// were there.
func (l *TokenQueue) GiveBack(q *gcra.Quota, now time.Duration, p Promise, n int, b Bucket) {
	if n == 0 {
		return
	}
	l.Serve(q, now)
	lower(b, l.Withdraw(q, now, p, n, b.Load()))
	l.Serve(q, now)
}

func (l *TokenQueue) dropLate(q *gcra.Quota, now time.Duration, b gcra.Bucket) (down gcra.Bucket) {
	return l.Drop(q, now, b, func(w *TokenWaiter, at time.Duration) bool {
		late := w.Value.deadline < at
		if late {
			w.Value.Answer(weir.Reject(w.Value.why, retrystep.Up(at-now)))
		}
		return late
	})
}

// AwaitTokens blocks until w is answered or ctx ends, as Call.Await says. leave is its leave,
// which takes w out by Leave; refund gives back the tokens if they came too late.
func AwaitTokens(ctx context.Context, w *TokenWaiter, leave func(*TokenWaiter, bool) bool, refund func(n int)) error {
	undo := func(refusal error) {
		if refusal == nil {
			refund(w.n)
		}
	}
	refusal, err := w.Value.Await(ctx, 0, func(expired bool) bool { return leave(w, expired) }, undo)
	return cmp.Or(err, refusal)
}

// Leave takes out a call that does not wait any more, and reports whether it was still
// there. If its time has expired, Leave first answers the calls that have their turn.
func (l *TokenQueue) Leave(q *gcra.Quota, now time.Duration, w *TokenWaiter, expired bool, b Bucket) bool {
	if expired {
		l.Serve(q, now)
	}
	down, ok := l.Cancel(q, now, w, b.Load())
	lower(b, down)
	l.Serve(q, now)
	return ok
}
