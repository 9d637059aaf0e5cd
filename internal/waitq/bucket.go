package waitq

import (
	"cmp"
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
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

// Change puts all calls that wait under another Quota, of which b is the Bucket.
// It refuses the calls that would have their turn too late, or that wait for more
// than the burst, and returns by how much to lower the Bucket for them.
func (l *TokenQueue) Change(from *gcra.Quota, now time.Duration, to *gcra.Quota, b gcra.Bucket) (down gcra.Bucket) {
	l.Move(from, now, to)
	down = l.Drop(to, now, b, func(w *TokenWaiter, _ time.Duration) bool {
		over := w.n > to.Burst()
		if over {
			w.Value.Answer(weir.Reject(weir.OverBurst, weir.Never))
		}
		return over
	})
	return down + l.dropLate(to, now, b-down)
}

// Charged puts all calls that wait off by n tokens that were charged; b is the
// Bucket after that. It refuses the calls that would have their turn too late, and
// returns by how much to lower the Bucket for them.
func (l *TokenQueue) Charged(q *gcra.Quota, now time.Duration, n int, b gcra.Bucket) (down gcra.Bucket) {
	if n == 0 {
		return 0
	}
	l.Delay(q, n)
	return l.dropLate(q, now, b)
}

func (l *TokenQueue) dropLate(q *gcra.Quota, now time.Duration, b gcra.Bucket) (down gcra.Bucket) {
	return l.Drop(q, now, b, func(w *TokenWaiter, at time.Duration) bool {
		late := w.Value.deadline < at
		if late {
			w.Value.Answer(weir.Reject(w.Value.why, at-now))
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

// Leave takes out a call that does not wait any more. If its time has expired, Leave
// first answers the calls that have their turn. It returns by how much to lower the
// Bucket b, and whether the call was still there.
func (l *TokenQueue) Leave(
	q *gcra.Quota, now time.Duration, w *TokenWaiter, expired bool, b gcra.Bucket,
) (down gcra.Bucket, ok bool) {
	if expired {
		l.Serve(q, now)
	}
	return l.Cancel(q, now, w, b)
}
