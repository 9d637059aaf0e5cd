package forward

import (
	"io"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/longlived"
)

// An alarm is the timer of a forward. It serves the Timeout of the origin and the checks of a
// forward that lasts longer than ordinary work. A request that is answered soon needs neither
// a timer nor the duration of ordinary work: recent calls checkAlarm after longlived.Least, which
// asks for that duration. The forward's mutex guards it.
type alarm struct {
	timer   *time.Timer   // calls checkAlarm; nil before it is needed
	fires   time.Duration // when checkAlarm is called next, at the latest; weir.Never if it is not
	silence time.Duration // the instant at which the Timeout is over; weir.Never while the client sends its request
	silent  bool          // that instant has come, and awaitEvent has not yet seen it
	out     bool          // the origin is out, and awaitEvent has not yet seen it
	since   time.Duration // when the request was sent, its answer began, or the last check was
	check   time.Duration // the next check is not before
	checked bool          // there was a check since the request was sent
	kind    longLived     // of the answer; notLong before it begins
	body    io.Closer     // of the answer
}

// startAlarm starts the alarm when the request is sent.
func (f *forward) startAlarm(now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarm.since, f.alarm.check = now, now+longlived.Least
	f.alarm.silence, f.alarm.fires = f.silenceFrom(now), f.alarm.check
	f.forwarder.recent.add(f, now) // calls checkAlarm then
	f.armTimerLocked(now)
	if f.call == nil {
		return
	}
	if _, ok := f.ctx.Deadline(); ok || f.forwarder.cfg.AbandonedHold == 0 {
		f.watchClientLocked()
	}
}

// silenceFrom returns when the Timeout is over, if the origin has to answer from now on.
func (f *forward) silenceFrom(now time.Duration) time.Duration {
	if f.Class.Timeout < 0 {
		return weir.Never
	}
	return now + min(f.Class.Timeout, weir.Never-now)
}

// armTimerLocked lets the timer fire at the next instant. It may fire earlier.
func (f *forward) armTimerLocked(now time.Duration) {
	a := &f.alarm
	next := min(a.silence, a.check)
	if next >= a.fires {
		return
	}
	a.fires = next
	if a.timer == nil {
		a.timer = time.AfterFunc(next-now, f.checkAlarm)
	} else {
		a.timer.Reset(next - now)
	}
}

// pauseTimeout stops the time of the origin while the client sends its request.
func (f *forward) pauseTimeout() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarm.silence, f.alarm.silent = weir.Never, false
}

// resumeTimeout starts the time of the origin again, from zero.
func (f *forward) resumeTimeout() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unit == unitReleased || f.hasAnswer {
		return
	}
	now := f.forwarder.now()
	f.alarm.silence = f.silenceFrom(now)
	f.armTimerLocked(now)
}

// checkAlarm is called when the timer fires, and by recent.
func (f *forward) checkAlarm() {
	now := f.forwarder.now()
	f.mu.Lock()
	was := f.why
	f.checkAlarmLocked(now)
	is := f.why
	f.mu.Unlock()
	if is.isStuck() && !was.isStuck() {
		f.warnStuck(now)
	}
}

func (f *forward) checkAlarmLocked(now time.Duration) {
	a := &f.alarm
	a.fires = weir.Never
	if f.unit == unitReleased {
		return
	}
	if a.silence <= now {
		a.silence, a.silent = weir.Never, true
		f.interruptWait()
	}
	if f.call != nil && !f.hasAnswer {
		f.watchClientLocked()
	}
	if a.check <= now {
		f.checkDurationLocked(now)
	}
	f.armTimerLocked(now)
}

// checkDurationLocked checks a forward that lasts longer than ordinary work, and sets the
// instant of the next check.
func (f *forward) checkDurationLocked(now time.Duration) {
	a, usual := &f.alarm, f.units.UsualDuration()
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
		f.checkWaitLocked(now)
		return
	}
	f.watchClientLocked()
	if !f.returnUnitLocked(a.kind, f.cutAnswer) {
		a.check = weir.Never
	}
}

// interruptWait lets awaitEvent look at what has happened, also while call waits for the answer.
func (f *forward) interruptWait() {
	f.wakeAwait()
	if f.call != nil {
		f.call.Interrupt()
	}
}

// wakeAwait lets awaitEvent look at what has happened.
func (f *forward) wakeAwait() {
	select {
	case f.wake <- struct{}{}:
	default: // it will
	}
}
