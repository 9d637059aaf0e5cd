package forward

import (
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/service/internal/connlimit"
)

// A longLived says why a forward goes on without a unit of the limit.
type longLived uint8

const (
	notLong  longLived = iota
	upgrade            // the connection has changed its protocol, as to a WebSocket
	stream             // an event stream
	download           // its body takes longer than ordinary work, to generate or to take
	slowBody           // the client sends the request's body slowly
	stuck              // there is no answer, and not for lack of capacity, as far as is known
	stuckOut           // there is no answer, and the origin is out
)

// LongLivedNames has the names of the reasons that an Observer hears; the first one is of none.
var LongLivedNames = [...]string{"", "upgrade", "stream", "download", "upload", "stuck", "stuck"}

func (k longLived) String() string { return LongLivedNames[k] }

// isStuck reports whether a forward has no answer.
func (k longLived) isStuck() bool { return k == stuck || k == stuckOut }

// kindOf returns why a forward goes on after its answer has begun: its kind, by the header.
func kindOf(resp *http.Response) longLived {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return upgrade
	}
	if longlived.Stream(resp.Header) {
		return stream
	}
	return download
}

// returnUnitLocked releases the unit of a forward that goes on, if its client has a place
// among Config.LongLived, or its origin is out. If not, and cut is set, it ends the forward while the limit
// is reached, because its client could otherwise hold the unit for as long as it likes.
// It reports whether the forward goes on within the limit.
func (f *forward) returnUnitLocked(why longLived, cut func()) (stays bool) {
	p := f.forwarder
	switch {
	case f.unit != unitHeld:
		return false
	case f.takeLongPlace():
		f.unit = unitReturned
	case why == stuckOut:
		f.unit = unitExcused
	default:
		if !f.foundNoPlace {
			f.foundNoPlace = true
			p.longFull.Add(1)
		}
		if p.long == nil || cut == nil || !f.units.AreUsedUp() {
			return true
		}
		p.cfg.Observer.ForwardEnded(why.String())
		cut()
		return false
	}
	f.why = why
	f.units.CountHolder(-1)
	p.work.countEnd(f.heldSince, p.now())
	p.cfg.Observer.LimitLeft(why.String())
	f.units.Use(0)
	return false
}

// takeLongPlace takes a place of Config.LongLived for the client of the forward, if there is one.
func (f *forward) takeLongPlace() bool {
	switch {
	case f.forwarder.long == nil:
		return false
	case f.Client.Addr.IsValid():
		return f.forwarder.long.EnterFrom(f.Client.Addr, 1)
	}
	return f.forwarder.long.Enter(connlimit.ClientOf(f.ctx), 1)
}

// releaseLongPlace gives the place back.
func (f *forward) releaseLongPlace() {
	if f.Client.Addr.IsValid() {
		f.forwarder.long.LeaveFrom(f.Client.Addr, 1)
	} else {
		f.forwarder.long.Leave(connlimit.ClientOf(f.ctx), 1)
	}
}

// retakeUnit takes a unit again when a slow client has sent its request. It does not
// wait, so such forwards can exceed the limit.
func (f *forward) retakeUnit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unit != unitReturned || f.why != slowBody {
		return
	}
	f.unit, f.why, f.slowClient = unitHeld, notLong, true
	f.releaseLongPlace()
	f.units.CountHolder(1)
	f.heldSince = f.forwarder.now()
	f.forwarder.work.countBegin(f.heldSince)
	f.units.Use(1)
}

// noteSent notes that the origin has the whole request.
func (f *forward) noteSent() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unit == unitReleased || f.hasAnswer || !f.units.Place.Taken {
		return
	}
	now := f.forwarder.now()
	f.upload.wholeAt.Store(int64(now))
	f.forwarder.cfg.Origins.NoteSent(now, f.units.Place.Origin())
}

// checkWaitLocked is called when a forward waits for an answer longer than ordinary work
// takes. If the client has not sent its request, the origin is idle. If many later requests
// were answered, the forward is stuck, and not for lack of capacity. If none were, because
// such forwards hold all units, one of them is let go now and then.
func (f *forward) checkWaitLocked(now time.Duration) {
	switch {
	case f.unit != unitHeld: // it would use up the relief of another
	case f.upload != nil && f.upload.waitsForClient.Load():
		f.returnUnitLocked(slowBody, f.upload.cutRead)
	case f.forwarder.cfg.Origins.IsOut(f.units.Place.Origin()):
		f.returnUnitOfOutOriginLocked()
		f.alarm.out = true
		f.interruptWait()
	case f.isOvertaken() || f.units.Relieve(now):
		f.returnUnitLocked(stuck, nil)
	}
}

// returnUnitOfOutOrigin lets a forward leave the limit because its origin is out.
func (f *forward) returnUnitOfOutOrigin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.returnUnitOfOutOriginLocked()
}

func (f *forward) returnUnitOfOutOriginLocked() {
	if f.why == stuck {
		f.why = stuckOut
	} else {
		f.returnUnitLocked(stuckOut, nil)
	}
}

// stuckEvery is the least time between two logged forwards that are stuck.
const stuckEvery = time.Minute

// warnStuck tells the operator now and then about a forward that has left the limit as stuck.
func (f *forward) warnStuck(now time.Duration) {
	p := f.forwarder
	if next := p.stuckLog.Load(); now >= time.Duration(next) && p.stuckLog.CompareAndSwap(next, int64(now+stuckEvery)) {
		p.cfg.Log.Warn("a request without an answer does not count as in flight any more: others are answered, or wait for its place",
			"class", f.Class.Name, "request", f.method+" "+f.path, "since", (now - f.begun).Round(time.Millisecond))
	}
}

// isOvertaken reports whether, since the forward began, its pool has served twice as
// many requests as were in flight then, and 20 more: at least half of them began after
// it.
func (f *forward) isOvertaken() bool {
	return f.units.ServedCount()-f.servedAtBegin >= uint64(2*f.holdersAtBegin+20)
}

// startBodyLocked lets the forward leave the limit while the body of its answer goes on: a
// download after the time that ordinary work takes, others at once. It asks again
// while there is no place.
func (f *forward) startBodyLocked(kind longLived, body io.Closer, now time.Duration) {
	a := &f.alarm
	a.kind, a.body, a.since, a.check, a.silence = kind, body, now, now+longlived.Least, weir.Never
	if kind != download {
		f.watchClientLocked()
		if !f.returnUnitLocked(kind, nil) {
			a.check = weir.Never
		}
	}
	f.armTimerLocked(now)
}

// An answerBody is the body of an answer. It ends the forward when the origin has
// sent it, even if the client has not read it yet.
type answerBody struct {
	io.ReadCloser
	forward *forward
	length  int64 // -1 = not known
	read    int64
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF || b.length >= 0 && b.read >= b.length {
		b.forward.release(b.forward.outcome)
	}
	return n, err
}
