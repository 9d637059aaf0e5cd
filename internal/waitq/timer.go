package waitq

import (
	"context"
	"time"

	"github.com/weir-go/weir"
)

// A Timer wakes the owner of a queue at its next turn. The owner holds its lock
// around all methods. The zero Timer is not armed and holds no resources.
//
// A wake-up cannot be lost: the owner calls Arm after every event that can bring
// a turn forward, and a Timer that is armed fires no later than the last Arm
// asked for. It may fire too early; then serving the queue answers no call and
// arms the Timer again.
type Timer struct {
	// Wake is called in a new goroutine. It must take the owner's lock, call Fired, and
	// serve the queue, which calls Arm for the next turn. Set it before the first Arm.
	Wake func()

	timer *time.Timer
	armed bool          // the timer is running, or Wake is waiting for the lock
	alarm time.Duration // when it fires
}

// Arm has Wake called at the instant at, unless it will be called earlier. If at is
// weir.Never, Arm does nothing.
func (t *Timer) Arm(now, at time.Duration) {
	if at == weir.Never || t.armed && t.alarm <= at {
		return
	}
	t.armed, t.alarm = true, at
	if t.timer == nil {
		t.timer = time.AfterFunc(at-now, t.Wake)
	} else {
		t.timer.Reset(at - now)
	}
}

// Fired notes that Wake has been called.
func (t *Timer) Fired() { t.armed = false }

// Snooze has Wake called again after d, because it was called too early.
func (t *Timer) Snooze(d time.Duration) {
	if t.timer != nil {
		t.timer.Reset(d)
	}
}

// Stop disarms the Timer and frees it. The owner calls it when no call waits.
func (t *Timer) Stop() {
	if t.timer != nil && (t.timer.Stop() || !t.armed) { // else Wake will free it
		t.timer, t.armed = nil, false
	}
}

// Epoch returns 1970 on the monotonic clock. Instants since then are positive
// also before the owner was made, and mean the same in another process.
func Epoch() time.Time {
	now := time.Now()
	return now.Add(-time.Duration(now.UnixNano()))
}

// Within returns the instant by which a call must have its turn, and the Reason
// of a refusal: the deadline of ctx (weir.TooLate) or, if that is sooner, maxWait
// from now (weir.OverRate). With a maxWait of zero, ctx alone bounds the wait;
// with a negative one, the call does not wait.
func Within(ctx context.Context, epoch time.Time, now, maxWait time.Duration) (time.Duration, weir.Reason) {
	at, why := time.Duration(weir.Never), weir.OverRate
	if maxWait != 0 {
		at = now + min(max(maxWait, 0), at-now)
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
