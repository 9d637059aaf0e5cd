package forward

import (
	"io"
	"math"
	"time"

	"github.com/weir-go/weir/internal/longlived"
)

// never is an instant that does not come.
const never = time.Duration(math.MaxInt64)

// An alarm is the timer of an exchange. It serves the Timeout of the origin and the checks of an
// exchange that lasts longer than ordinary work. A request that is answered soon needs neither
// a timer nor the duration of ordinary work: recent calls ring after longlived.Least, which
// asks for that duration. The exchange's mutex guards it.
type alarm struct {
	timer   *time.Timer   // calls ring; nil before it is needed
	fires   time.Duration // when ring is called next, at the latest; never if it is not
	silence time.Duration // the instant at which the Timeout is over; never while the client sends its request
	silent  bool          // that instant has come, and await has not yet seen it
	out     bool          // the origin is out, and await has not yet seen it
	since   time.Duration // when the request was sent, its answer began, or the last check was
	check   time.Duration // the next check is not before
	checked bool          // there was a check since the request was sent
	kind    longLived     // of the answer; notLong before it begins
	body    io.Closer     // of the answer
}

// watchOrigin starts the alarm when the request is sent.
func (x *exchange) watchOrigin(now time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.alarm.since, x.alarm.check = now, now+longlived.Least
	x.alarm.silence, x.alarm.fires = x.silenceFrom(now), x.alarm.check
	x.forwarder.recent.add(x, now) // calls ring then
	x.armLocked(now)
	if x.calling == nil {
		return
	}
	if _, ok := x.ctx.Deadline(); ok || x.forwarder.cfg.AbandonedHold == 0 {
		x.heedLocked()
	}
}

// silenceFrom returns when the Timeout is over, if the origin has to answer from now on.
func (x *exchange) silenceFrom(now time.Duration) time.Duration {
	if x.Class.Timeout < 0 {
		return never
	}
	return now + min(x.Class.Timeout, never-now)
}

// armLocked lets the timer fire at the next instant. It may fire earlier.
func (x *exchange) armLocked(now time.Duration) {
	a := &x.alarm
	next := min(a.silence, a.check)
	if next >= a.fires {
		return
	}
	a.fires = next
	if a.timer == nil {
		a.timer = time.AfterFunc(next-now, x.ring)
	} else {
		a.timer.Reset(next - now)
	}
}

// pause stops the time of the origin while the client sends its request.
func (x *exchange) pause() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.alarm.silence, x.alarm.silent = never, false
}

// resume starts the time of the origin again, from zero.
func (x *exchange) resume() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.came {
		return
	}
	now := x.forwarder.now()
	x.alarm.silence = x.silenceFrom(now)
	x.armLocked(now)
}

// ring is called when the timer fires, and by recent.
func (x *exchange) ring() {
	now := x.forwarder.now()
	x.mu.Lock()
	was := x.long
	x.ringLocked(now)
	is := x.long
	x.mu.Unlock()
	if is == stuck && was != stuck {
		x.warnStuck(now)
	}
}

func (x *exchange) ringLocked(now time.Duration) {
	a := &x.alarm
	a.fires = never
	if x.ended {
		return
	}
	if a.silence <= now {
		a.silence, a.silent = never, true
		x.interrupt()
	}
	if x.calling != nil && !x.came {
		x.heedLocked()
	}
	if a.check <= now {
		x.checkLocked(now)
	}
	x.armLocked(now)
}

// checkLocked checks an exchange that lasts longer than ordinary work, and sets the
// instant of the next check.
func (x *exchange) checkLocked(now time.Duration) {
	a, usual := &x.alarm, x.permit.UsualDuration()
	due := a.since + usual
	if a.kind == notLong && !a.checked {
		due += usual
	}
	if due > now {
		a.check = due
		return
	}
	a.since, a.check, a.checked = now, now+usual, true
	if a.kind == notLong {
		x.checkWaitLocked(now)
		return
	}
	x.heedLocked()
	if !x.leaveLimitLocked(a.kind, x.cutAnswer) {
		a.check = never
	}
}

// interrupt lets await look at what has happened, also while call waits for the answer.
func (x *exchange) interrupt() {
	x.wakeUp()
	if x.calling != nil {
		x.calling.Interrupt()
	}
}

// wakeUp lets await look at what has happened.
func (x *exchange) wakeUp() {
	select {
	case x.wake <- struct{}{}:
	default: // it will
	}
}
