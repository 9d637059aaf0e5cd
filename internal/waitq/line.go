// Package line is the shell that rate and keyed share: those who wait for the
// tokens of one bucket, the timer that wakes them, and the channels by which
// they hear.
package waitq

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// A Line is who waits for one bucket, and who was promised tokens to come. Its
// owner holds a lock around all its methods, and serves it after every event
// that can bring a turn forward. Until somebody waits it has no timer.
type Line struct {
	gcra.Queue[*Waiter]

	wake  func() // what the timer runs
	timer *time.Timer
	armed bool          // the timer is running
	alarm time.Duration // and will fire at this instant
}

// A Waiter stands in line for a blocked call.
type Waiter struct {
	n        int
	deadline time.Duration
	why      weir.Reason // to refuse it, if its turn would come later than that
	place    *gcra.Waiter[*Waiter]
	answer   chan error // of capacity one; whoever takes it out of the Queue sends, once
}

// Join lets somebody wait for n tokens, for whom the Bucket b was reserved. If
// its turn is put off beyond the deadline, it is refused for the reason why.
// At the next turn, wake runs in a goroutine of its own; it is always the
// same, and must Wake the Line.
func (l *Line) Join(q *gcra.Quota, b gcra.Bucket, n int, deadline time.Duration, why weir.Reason, wake func()) *Waiter {
	l.wake = wake
	w := &Waiter{n: n, deadline: deadline, why: why, answer: make(chan error, 1)}
	w.place = l.Queue.Join(q, b, n, w)
	return w
}

// Serve answers all whose turn it is, and sets the timer for the next turn.
func (l *Line) Serve(q *gcra.Quota, now time.Duration) {
	for {
		w, ok := l.Next(q, now)
		if !ok {
			break
		}
		w.answer <- nil
	}
	if l.Len() == 0 && l.timer != nil && (l.timer.Stop() || !l.armed) { // else Wake is on its way
		l.timer, l.armed = nil, false // a Line that nobody waits in holds nothing
	}
	at, ok := l.Deadline(q)
	if !ok || l.armed && l.alarm <= at {
		return // a timer that fires too early is left alone: it leads here again
	}
	l.armed, l.alarm = true, at
	if l.timer == nil {
		l.timer = time.AfterFunc(at-now, l.wake)
	} else {
		l.timer.Reset(at - now)
	}
}

// Wake is Serve for the timer.
func (l *Line) Wake(q *gcra.Quota, now time.Duration) {
	l.armed = false
	l.Serve(q, now)
}

// Snooze is Wake when it is too early by d.
func (l *Line) Snooze(d time.Duration) {
	if l.timer != nil { // else nobody waits any more
		l.timer.Reset(d)
	}
}

// Change puts all who wait under another quota, of which b is the Bucket, and
// returns by how much to lower it, for those who are refused: because their turn
// would come too late, or because they wait for more than the burst.
func (l *Line) Change(from *gcra.Quota, now time.Duration, to *gcra.Quota, b gcra.Bucket) (down gcra.Bucket) {
	l.Move(from, now, to)
	down = l.Drop(to, now, b, func(w *Waiter, _ time.Duration) bool {
		over := w.n > to.Burst()
		if over {
			w.answer <- weir.Reject(weir.OverBurst, weir.Never)
		}
		return over
	})
	return down + l.dropLate(to, now, b-down)
}

// Charged puts off all who wait by n tokens that were charged, b being the
// Bucket after that, and returns by how much to lower it, for those whose turn
// would come too late.
func (l *Line) Charged(q *gcra.Quota, now time.Duration, n int, b gcra.Bucket) (down gcra.Bucket) {
	if n == 0 {
		return 0
	}
	l.Delay(q, n)
	return l.dropLate(q, now, b)
}

func (l *Line) dropLate(q *gcra.Quota, now time.Duration, b gcra.Bucket) (down gcra.Bucket) {
	return l.Drop(q, now, b, func(w *Waiter, at time.Duration) bool {
		late := w.deadline < at
		if late {
			w.answer <- weir.Reject(w.why, at-now)
		}
		return late
	})
}

// Leave takes a Waiter out, whose context has ended. It returns by how much to
// lower the Bucket b for what it stood for, and how many tokens to give back
// that it has been granted meanwhile.
func (l *Line) Leave(q *gcra.Quota, now time.Duration, w *Waiter, b gcra.Bucket) (down gcra.Bucket, giveBack int) {
	down, queued := l.Cancel(q, now, w.place, b)
	if !queued && <-w.answer == nil {
		giveBack = w.n
	}
	return down, giveBack
}

// Await blocks until w is answered or ctx ends; then it calls leave, which
// must call Leave. If it is the deadline of ctx that has come, it calls serve
// before, which must Serve the line or Wake it: a turn by the deadline counts,
// even if the timer of the line is the later of the two to be heard.
//
// The answer cannot be lost, nor a token with it: a Waiter is taken out of the
// Queue, and its answer sent, under the owner's lock. So if Leave, under the
// same lock, finds it gone, the answer is already in the channel.
func (w *Waiter) Await(ctx context.Context, serve, leave func()) error {
	select {
	case err := <-w.answer:
		return err
	case <-ctx.Done():
	}
	if ctx.Err() == context.DeadlineExceeded {
		serve()
		select {
		case err := <-w.answer:
			return err
		default:
		}
	}
	leave()
	return ctx.Err()
}

// Epoch returns 1970 on the monotonic clock: so instants before its owner was
// made count too, and a Bucket means the same instant in another process.
func Epoch() time.Time {
	now := time.Now()
	return now.Add(-time.Duration(now.UnixNano()))
}

// Within returns the instant by which a call must have its turn, and the reason
// to give if it cannot: the deadline of its context or, if that is sooner,
// maxWait from now. A maxWait of zero or less is no bound.
func Within(ctx context.Context, epoch time.Time, now, maxWait time.Duration) (time.Duration, weir.Reason) {
	at, why := time.Duration(weir.Never), weir.OverRate
	if maxWait > 0 {
		at = now + min(maxWait, at-now)
	}
	if t, ok := ctx.Deadline(); ok && t.Sub(epoch) < at {
		at, why = t.Sub(epoch), weir.TooLate
	}
	return at, why
}

// Left returns the time that is left until the deadline.
func Left(deadline, now time.Duration) time.Duration {
	if deadline == weir.Never {
		return weir.Never
	}
	return max(deadline-now, 0)
}
