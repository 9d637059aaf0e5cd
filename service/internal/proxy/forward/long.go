package forward

import (
	"io"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/service/internal/connlimit"
)

// DefaultLongLived is the default of Config.LongLived.
const DefaultLongLived = 2000

// A longLived says why an exchange goes on without a unit of the limit.
type longLived uint8

const (
	notLong  longLived = iota
	upgrade            // the connection has changed its protocol, as to a WebSocket
	stream             // an event stream
	download           // its body takes longer than ordinary work, to generate or to take
	slowBody           // the client sends the request's body slowly
	stuck              // there is no answer, and not for lack of capacity, as far as is known
)

var LongLivedNames = [...]string{"", "upgrade", "stream", "download", "upload", "stuck"}

func (k longLived) String() string { return LongLivedNames[k] }

// kindOf returns the kind of an answer that goes on.
func kindOf(resp *http.Response) longLived {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return upgrade
	}
	if longlived.Stream(resp.Header) {
		return stream
	}
	return download
}

// leaveLimitLocked releases the unit of an exchange that goes on, if its client has a place
// among Config.LongLived, or its origin is out. If not, and cut is set, it ends the exchange while the limit
// is reached, because its client could otherwise hold the unit for as long as it likes.
// It reports whether the exchange goes on within the limit.
func (x *exchange) leaveLimitLocked(why longLived, cut func()) (stays bool) {
	p := x.forwarder
	switch {
	case x.ended || x.long != notLong:
		return false
	case !x.enterLong() && !x.excused:
		if !x.full {
			x.full = true
			p.longFull.Add(1)
		}
		if p.long == nil || cut == nil || !x.permit.AreUsedUp() {
			return true
		}
		p.cfg.Observer.ForwardEnded(why.String())
		cut()
		return false
	}
	x.long = why
	x.permit.CountHolder(-1)
	p.work.end(x.began, p.now())
	p.cfg.Observer.LimitLeft(why.String())
	x.permit.Use(0)
	return false
}

// enterLong takes a place of Config.LongLived for the client of the exchange, if there is one.
func (x *exchange) enterLong() bool {
	switch {
	case x.forwarder.long == nil:
	case x.Client.Addr.IsValid():
		x.entered = x.forwarder.long.EnterFrom(x.Client.Addr, 1)
	default:
		x.entered = x.forwarder.long.Enter(connlimit.ClientOf(x.ctx), 1)
	}
	return x.entered
}

func (x *exchange) leaveLong() {
	if !x.entered {
		return
	}
	x.entered = false
	if x.Client.Addr.IsValid() {
		x.forwarder.long.LeaveFrom(x.Client.Addr, 1)
	} else {
		x.forwarder.long.Leave(connlimit.ClientOf(x.ctx), 1)
	}
}

// rejoin takes a unit again when a slow client has sent its request. It does not
// wait, so such exchanges can exceed the limit.
func (x *exchange) rejoin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.long != slowBody {
		return
	}
	x.long, x.slow = notLong, true
	x.leaveLong()
	x.permit.CountHolder(1)
	x.began = x.forwarder.now()
	x.forwarder.work.begin(x.began)
	x.permit.Use(1)
}

// sent notes that the origin has the whole request.
func (x *exchange) sent() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.came || !x.permit.Place.Taken {
		return
	}
	now := x.forwarder.now()
	x.upload.whole.Store(int64(now))
	x.forwarder.cfg.Origins.NoteSent(now, x.permit.Place.Origin())
}

// checkWaitLocked is called when an exchange waits for an answer longer than ordinary work
// takes. If the client has not sent its request, the origin is idle. If many later requests
// were answered, the exchange is stuck, and not for lack of capacity. If none were, because
// such exchanges hold all units, one of them is let go now and then.
func (x *exchange) checkWaitLocked(now time.Duration) {
	switch {
	case x.long != notLong: // it would use up the relief of another
	case x.upload != nil && x.upload.waits.Load():
		x.leaveLimitLocked(slowBody, x.upload.cut)
	case x.forwarder.cfg.Origins.IsOut(x.permit.Place.Origin()):
		x.excuseLocked()
		x.alarm.out = true
		x.interrupt()
	case x.overtaken() || x.permit.Relieve(now):
		x.leaveLimitLocked(stuck, nil)
	}
}

// excuse lets an exchange leave the limit because its origin is out.
func (x *exchange) excuse() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.excuseLocked()
}

func (x *exchange) excuseLocked() {
	x.excused = true
	x.leaveLimitLocked(stuck, nil)
}

// stuckEvery is the least time between two logged exchanges that are stuck.
const stuckEvery = time.Minute

// warnStuck tells the operator now and then about an exchange that has left the limit as stuck.
func (x *exchange) warnStuck(now time.Duration) {
	p := x.forwarder
	if next := p.stuckLog.Load(); now >= time.Duration(next) && p.stuckLog.CompareAndSwap(next, int64(now+stuckEvery)) {
		p.cfg.Log.Warn("a request without an answer does not count as in flight any more: others are answered, or wait for its place",
			"class", x.Class.Name, "request", x.method+" "+x.path, "since", (now - x.admitted).Round(time.Millisecond))
	}
}

// overtaken reports whether, since the exchange began, its pool has served twice as
// many requests as were in flight then, and 20 more: at least half of them began after
// it.
func (x *exchange) overtaken() bool {
	return x.permit.ServedCount()-x.served >= uint64(2*x.beside+20)
}

// watchBodyLocked lets the exchange leave the limit while the body of its answer goes on: a
// download after the time that ordinary work takes, others at once. It asks again
// while there is no place.
func (x *exchange) watchBodyLocked(kind longLived, body io.Closer, now time.Duration) {
	a := &x.alarm
	a.kind, a.body, a.since, a.check, a.silence = kind, body, now, now+longlived.Least, never
	if kind != download {
		x.heedLocked()
		if !x.leaveLimitLocked(kind, nil) {
			a.check = never
		}
	}
	x.armLocked(now)
}

// An answerBody is the body of an answer. It ends the exchange when the origin has
// sent it, even if the client has not read it yet.
type answerBody struct {
	io.ReadCloser
	exchange *exchange
	length   int64 // -1 = not known
	read     int64
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err == io.EOF || b.length >= 0 && b.read >= b.length {
		b.exchange.end(b.exchange.outcome)
	}
	return n, err
}
