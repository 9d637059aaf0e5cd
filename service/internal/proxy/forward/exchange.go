package forward

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/http1client"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/relay"
)

// An exchange is one admitted request and its permit. The fields above the mutex
// belong to the goroutine that serves the request.
type exchange struct {
	forwarder *Forwarder
	Request
	writer    http.ResponseWriter
	ctx       context.Context // of the client's request
	outcome   weir.Outcome
	upload    *upload           // the request's body, unless it was received first
	inform    *relay.Informer   // passes 1xx answers on
	calling   *http1client.Call // of a brief request on an idle connection
	release   func()            // cancels the request to the origin; nil before it is sent
	wake      chan struct{}     // lets await look at what has happened
	abandoned bool              // a hold has the exchange, and ends it
	whole     bool              // the handler did not panic; it does if a body breaks off
	held      error             // all origins ask for a pause
	moves     int               // how often its request has gone to another origin
	moved     bool              // another one follows, at another origin
	sign      loadsign.Sign     // of the answer, or the missing one

	admitted time.Duration // when it began
	method   string
	path     string

	served uint64 // within the limiter before this exchange began
	beside int64  // exchanges that held a unit when this one began, itself included

	mu          sync.Mutex // guards the fields below
	permit      limits.Units
	began       time.Duration // when it took the units
	long        longLived     // why it holds no unit; notLong if it holds one
	entered     bool          // it has a place of Config.LongLived
	full        bool          // there was no place for it without a unit
	slow        bool          // the client was slow to send the request
	stopHeeding func() bool   // ends heedLocked; nil before it
	alarm       alarm
	answer      origins.Answer
	came        bool // the answer
	ended       bool // the permit is released
	excused     bool // it has left the limit because its origin is out

	links recentLinks // Forwarder.recent guards it
}

// begin moves the permits into a new exchange.
func (p *Forwarder) begin(w http.ResponseWriter, r *http.Request, q Request, ps *limits.Units, now time.Duration) *exchange {
	p.serving.Add(1)
	p.work.begin(now)
	x := &exchange{
		forwarder: p, Request: q, writer: w, ctx: r.Context(), began: now, admitted: now,
		method: r.Method, path: r.URL.Path,
		served: ps.ServedCount(), beside: ps.CountHolder(1),
	}
	if !ps.Place.Taken {
		x.held = p.cfg.Origins.Choose(rand.Uint64(), -1, nil, &ps.Place)
	}
	x.permit = ps.Move()
	return x
}

// finish ends the exchange when its handler returns or panics.
func (x *exchange) finish() {
	x.forwarder.serving.Add(-1)
	if x.upload != nil && !x.moved {
		x.upload.detach()
	}
	if x.abandoned {
		return
	}
	if x.release != nil {
		x.release()
	}
	outcome := x.outcome
	if !x.whole && outcome == weir.Success {
		outcome = weir.Ignored
	}
	x.end(outcome)
}

// end releases the permit, on its first call.
func (x *exchange) end(o weir.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.ended = true
	if x.permit.Place.Taken {
		x.forwarder.cfg.Origins.Release(&x.permit.Place)
	}
	x.forwarder.recent.remove(x)
	if x.alarm.timer != nil {
		x.alarm.timer.Stop()
	}
	if x.stopHeeding != nil {
		x.stopHeeding()
	}
	if x.long == notLong {
		x.permit.CountHolder(-1)
		x.forwarder.work.end(x.began, x.forwarder.now())
	} else {
		x.leaveLong()
	}
	o = x.judgedLocked(o)
	if !x.moved {
		x.Class.Counts.CountOutcome(o, x.wastedLocked())
	}
	x.permit.Release(o)
}

// wastedLocked reports whether the client does not get the answer, because it has left, or the
// deadline or the Timeout is over. The client of a long-lived exchange ends it by leaving.
func (x *exchange) wastedLocked() bool {
	return x.long == notLong && (x.abandoned || !x.whole && x.ctx.Err() != nil)
}

// judgedLocked corrects an outcome that says nothing about load: the origin was
// late for one request while it served many others, or is out, or the client was slow.
func (x *exchange) judgedLocked(o weir.Outcome) weir.Outcome {
	switch {
	case x.long == stuck && x.excused:
		return weir.Ignored
	case x.long == stuck && x.overtaken() && (o == weir.Dropped || o == outcome.Late):
		return weir.Ignored
	case x.slow && o == weir.Success:
		return weir.Ignored
	}
	return o
}

// answered takes the origin's answer while the client waits.
func (x *exchange) answered(req *http.Request, a origins.Answer, now time.Duration) (*http.Response, error) {
	if a.Panicked != nil {
		panic(a.Panicked)
	}
	x.sign = signOf(a, x.upload)
	x.judgeAnswer(now, a, x.sign)
	x.outcome = x.sign.Outcome()
	if a.Err != nil && x.movable(req, a.Err) {
		x.moved = true
		return nil, a.Err
	}
	x.seen(x.sign)
	if a.Err != nil {
		return nil, a.Err
	}
	x.send(a.Resp, now)
	return a.Resp, nil
}

// send begins the body of an answer. The limit's sample ends with the header. The
// unit is released when the origin has sent the body, or after the time that
// ordinary work takes.
func (x *exchange) send(resp *http.Response, now time.Duration) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	kind, body := kindOf(resp), resp.Body
	if kind != upgrade { // its body must stay writable
		resp.Body = &answerBody{ReadCloser: body, exchange: x, length: resp.ContentLength}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.permit.Report(x.judgedLocked(x.outcome))
	x.watchBodyLocked(kind, body, now)
}

// cutAnswer ends the body of an answer, also while the client does not read it.
func (x *exchange) cutAnswer() {
	if x.alarm.kind == upgrade {
		_ = x.alarm.body.Close()
		return
	}
	x.release()
	_ = http.NewResponseController(x.writer).SetWriteDeadline(time.Now())
}

// seen counts a sign of load.
func (x *exchange) seen(sign loadsign.Sign) {
	x.forwarder.signs[sign].Add(1)
	if sign == loadsign.Served {
		x.permit.CountServed()
	}
}

// place returns the place of the exchange at its origin, with what is known of its upload.
func (x *exchange) place() origins.Place {
	at := x.permit.Place
	if x.upload != nil {
		at = at.SentAt(time.Duration(x.upload.whole.Load()))
	}
	return at
}

// judgeAnswer reports the answer of the origin.
func (x *exchange) judgeAnswer(now time.Duration, a origins.Answer, sign loadsign.Sign) {
	x.forwarder.cfg.Origins.JudgeAnswer(now, x.place(), a, sign, x.upload != nil && x.upload.failed.Load() != 0)
}
