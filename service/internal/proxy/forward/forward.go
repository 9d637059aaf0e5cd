package forward

import (
	"context"
	"math"
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

// A forward is one admitted request and its permit. The fields above the mutex
// belong to the goroutine that serves the request.
type forward struct {
	forwarder *Forwarder
	Request
	arrival
	writer  http.ResponseWriter
	ctx     context.Context // of the client's request
	outcome weir.Outcome
	upload  *upload           // the request's body, unless it was received first
	inform  *relay.Informer   // passes 1xx answers on
	call    *http1client.Call // of a brief request on an idle connection
	cancel  func()            // cancels the request to the origin; nil before it is sent
	wake    chan struct{}     // lets awaitEvent look at what has happened
	handler handlerState
	paused  error         // all origins ask for a pause
	moves   int           // how often its request has gone to another origin
	moved   bool          // another one follows, at another origin
	sign    loadsign.Sign // of the answer, or the missing one

	begun  time.Duration // when it began
	method string
	path   string

	servedAtBegin  uint64 // within the limiter before this forward began
	holdersAtBegin int64  // forwards that held a unit when this one began, itself included

	mu            sync.Mutex // guards the fields below
	units         limits.Units
	heldSince     time.Duration // when it took the units
	unit          unitState
	why           longLived   // it goes on without a unit; notLong if it holds one
	foundNoPlace  bool        // there was no place for it without a unit
	slowClient    bool        // the client was slow to send the request
	unwatchClient func() bool // ends watchClientLocked; nil before it
	alarm         alarm
	answer        origins.Answer
	hasAnswer     bool // the answer

	links recentLinks // Forwarder.recent guards it
}

// A handlerState says whether the handler of the client's request still has the forward.
type handlerState uint8

const (
	handlerRuns      handlerState = iota // or has panicked, as it does if a body breaks off
	handlerDone                          // it has answered
	handlerAbandoned                     // its client has no answer: a hold has the forward, and ends it
)

// A unitState says whether a forward holds a unit of the limit.
type unitState uint8

const (
	unitHeld     unitState = iota
	unitReturned           // the forward goes on without it, at a place of Config.LongLived
	unitExcused            // the forward goes on without it and without a place, because its origin is out
	unitReleased           // the forward is over
)

// beginForward moves the permits into a new forward.
func (p *Forwarder) beginForward(w http.ResponseWriter, r *http.Request, q *Request, came arrival, ps *limits.Units, now time.Duration) *forward {
	p.serving.Add(1)
	came.record.Inflight = p.work.countBegin(now)
	f := &forward{
		forwarder: p, Request: *q, arrival: came, writer: w, ctx: r.Context(), heldSince: now, begun: now,
		method: r.Method, path: r.URL.Path,
		servedAtBegin: ps.ServedCount(), holdersAtBegin: ps.CountHolder(1),
	}
	if !ps.Place.Taken {
		f.paused = p.cfg.Origins.Choose(rand.Uint64(), -1, nil, &ps.Place)
	}
	f.record.Origin = 0
	if ps.Place.Taken {
		f.record.Origin = uint8(min(ps.Place.Origin()+1, math.MaxUint8))
	}
	f.units = ps.Move()
	return f
}

// endHandler ends the forward when its handler returns or panics.
func (f *forward) endHandler() {
	f.forwarder.serving.Add(-1)
	if f.upload != nil && !f.moved {
		f.upload.detach()
	}
	if f.handler == handlerAbandoned {
		return
	}
	if f.cancel != nil {
		f.cancel()
	}
	outcome := f.outcome
	if f.handler != handlerDone && outcome == weir.Success {
		outcome = weir.Ignored
	}
	f.release(outcome)
}

// release releases the permit, on its first call.
func (f *forward) release(o weir.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.unit
	if was == unitReleased {
		return
	}
	f.unit = unitReleased
	if f.units.Place.Taken {
		f.forwarder.cfg.Origins.Release(&f.units.Place)
	}
	f.forwarder.recent.remove(f)
	if f.alarm.timer != nil {
		f.alarm.timer.Stop()
	}
	if f.unwatchClient != nil {
		f.unwatchClient()
	}
	var now time.Duration
	if was == unitHeld || f.lacksRecordLocked() {
		now = f.forwarder.now()
	}
	switch was {
	case unitHeld:
		f.units.CountHolder(-1)
		f.forwarder.work.countEnd(f.heldSince, now)
	case unitReturned:
		f.releaseLongPlace()
	}
	o = f.correctedOutcomeLocked(o)
	if !f.moved {
		f.Class.Counts.CountOutcome(o, f.isWastedLocked())
		f.recordLocked(now, o)
	}
	f.units.Release(o)
}

// isWastedLocked reports whether the client does not get the answer, because it has left, or the
// deadline or the Timeout is over. The client of a long-lived forward ends it by leaving.
func (f *forward) isWastedLocked() bool {
	return f.why == notLong && (f.handler == handlerAbandoned || f.handler == handlerRuns && f.ctx.Err() != nil)
}

// correctedOutcomeLocked corrects an outcome that says nothing about load: the origin was
// late for one request while it served many others, or is out, or the client was slow.
func (f *forward) correctedOutcomeLocked(o weir.Outcome) weir.Outcome {
	switch {
	case f.why == stuckOut:
		return weir.Ignored
	case f.why == stuck && f.isOvertaken() && (o == weir.Dropped || o == outcome.Late):
		return weir.Ignored
	case f.slowClient && o == weir.Success:
		return weir.Ignored
	}
	return o
}

// judgeFirstAnswer takes the origin's answer while the client waits.
func (f *forward) judgeFirstAnswer(req *http.Request, a origins.Answer, now time.Duration) (*http.Response, error) {
	if a.Panicked != nil {
		panic(a.Panicked)
	}
	f.sign = signOf(a, f.upload)
	f.judgeAnswer(now, a, f.sign)
	f.outcome = f.sign.Outcome()
	if a.Err != nil && f.canMove(req, a.Err) {
		f.moved = true
		return nil, a.Err
	}
	f.countSign(f.sign)
	if a.Err != nil {
		return nil, a.Err
	}
	f.beginBody(a.Resp, now)
	return a.Resp, nil
}

// beginBody begins the body of an answer. The limit's sample ends with the header. The
// unit is released when the origin has sent the body, or after the time that
// ordinary work takes.
func (f *forward) beginBody(resp *http.Response, now time.Duration) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	kind, body := kindOf(resp), resp.Body
	if kind != upgrade { // its body must stay writable
		resp.Body = &answerBody{ReadCloser: body, forward: f, length: resp.ContentLength}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.correctedOutcomeLocked(f.outcome)
	f.units.Report(o)
	f.recordLocked(now, o)
	f.startBodyLocked(kind, body, now)
}

// cutAnswer ends the body of an answer, also while the client does not read it.
func (f *forward) cutAnswer() {
	if f.alarm.kind == upgrade {
		_ = f.alarm.body.Close()
		return
	}
	f.cancel()
	_ = http.NewResponseController(f.writer).SetWriteDeadline(time.Now())
}

// countSign counts a sign of load.
func (f *forward) countSign(sign loadsign.Sign) {
	f.forwarder.signs[sign].Add(1)
	if sign == loadsign.Served {
		f.units.CountServed()
	}
}

// place returns the place of the forward at its origin, with what is known of its upload.
func (f *forward) place() origins.Place {
	at := f.units.Place
	if f.upload != nil {
		at = at.SentAt(time.Duration(f.upload.wholeAt.Load()))
	}
	return at
}

// judgeAnswer reports the answer of the origin.
func (f *forward) judgeAnswer(now time.Duration, a origins.Answer, sign loadsign.Sign) {
	f.forwarder.cfg.Origins.JudgeAnswer(now, f.place(), a, sign, f.upload != nil && f.upload.failedStatus.Load() != 0)
}
