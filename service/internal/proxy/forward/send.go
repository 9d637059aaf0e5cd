package forward

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/http1client"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

var (
	errTimeout    = errors.New("the origin did not answer in time")
	errClientGone = errors.New("the client left")
)

// sendRequest sends the request to the origin. It returns when the client leaves, or the Timeout
// is over. The request can outlive its client, and its end is an outcome for the limit. It
// changes the URL of the request. If it has set moved, the request can be sent to another origin.
func (f *forward) sendRequest(req *http.Request) (*http.Response, error) {
	p := f.forwarder
	if f.paused != nil {
		return nil, f.paused
	}
	to := p.cfg.Origins.At(f.units.Place.Origin())
	f.wake = make(chan struct{}, 1)
	to.Direct(req)
	f.takeIdleConn(req, to)
	f.startAlarm(f.begun)
	if !f.sendOnIdleConn() {
		f.sendOnNewConn(req, to)
	}
	for {
		switch a, event := f.awaitEvent(f.ctx.Done(), nil); event {
		case originAnswered:
			now := p.now()
			p.cfg.Observer.OriginAnswered(now-f.begun, f.trace)
			return f.judgeFirstAnswer(req, a, now)
		case clientLeft:
			if f.upload != nil {
				f.upload.noteClientGone()
			}
			f.holdAbandoned(false)
			return nil, errClientGone
		case originSilent:
			if f.moved = f.canMove(req, errTimeout); f.moved {
				f.sign = loadsign.Silent
				f.returnUnitOfOutOrigin()
			} else {
				f.countSign(loadsign.Silent)
			}
			f.holdAbandoned(true)
			return nil, errTimeout
		case originOut:
			if f.moved = f.canMove(req, errTimeout); f.moved {
				f.sign = loadsign.Silent
				f.holdAbandoned(false)
				return nil, errTimeout
			}
		}
	}
}

// An event ends the wait for an answer.
type event uint8

const (
	originAnswered event = iota
	clientLeft
	originSilent // for the Timeout
	originOut    // and another one is not
	holdOver
)

// awaitEvent waits for an event. The channels gone and over may be nil. No event is lost: its
// goroutine notes it in the forward, and then fills the channel wake, which has room for one.
func (f *forward) awaitEvent(gone <-chan struct{}, over <-chan time.Time) (origins.Answer, event) {
	for {
		if a, event, ok := f.takeEvent(); ok {
			return a, event
		}
		select {
		case <-f.wake:
		case <-gone:
			return origins.Answer{}, clientLeft
		case <-over:
			return origins.Answer{}, holdOver
		}
	}
}

// takeEvent returns the event that has woken awaitEvent.
func (f *forward) takeEvent() (a origins.Answer, e event, ok bool) {
	f.mu.Lock()
	came, silent, out := f.hasAnswer, f.alarm.silent, f.alarm.out
	f.alarm.silent, f.alarm.out = false, false
	a = f.answer
	f.mu.Unlock()
	if came {
		return a, originAnswered, true
	}
	if silent {
		f.forwarder.cfg.Origins.JudgeSilence(f.forwarder.now(), f.place())
		return a, originSilent, true
	}
	if out {
		return a, originOut, true
	}
	return a, 0, false
}

// sendOnNewConn sends the request on another goroutine, with a context that ends by release, and not
// with the client's request.
func (f *forward) sendOnNewConn(req *http.Request, to *origins.Origin) {
	ctx := f.inform.Trace(req.Context())
	ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	req = req.WithContext(ctx)
	go func() { f.takeAnswer(to.Send(req, &f.inform.Connected)) }()
}

// takeAnswer passes the answer to awaitEvent.
func (f *forward) takeAnswer(a origins.Answer) {
	f.mu.Lock()
	f.answer, f.hasAnswer, f.alarm.silence = a, true, weir.Never
	f.mu.Unlock()
	f.wakeAwait()
}

// canMove reports whether a request without an answer may be sent to another origin: nothing was sent, because there is
// no connection; or it may be repeated, and the origin broke off, or is out because it answers nothing.
func (f *forward) canMove(req *http.Request, failed error) bool {
	s := f.forwarder.cfg.Origins
	if f.moves == origins.MaxMoves || s.Count() == 1 || f.ctx.Err() != nil {
		return false
	}
	switch {
	case origins.IsUnsent(failed):
		return rereadable(req) || f.upload.isUnread()
	case !idempotent(req), !rereadable(req):
		return false
	case failed == errTimeout:
		return s.IsOut(f.units.Place.Origin())
	}
	return origins.CanRepeat(failed)
}

// rereadable reports whether a request has no body, or one that can be read again.
func rereadable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// idempotent reports whether the method of a request says that it may be repeated.
func idempotent(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// sendElsewhere sends the request of a forward that has failed to another origin.
func (f *forward) sendElsewhere(w http.ResponseWriter, r *http.Request, failed error) {
	p, was := f.forwarder, f.units.Place.Origin()
	var ps limits.Units
	err := f.Class.Acquire(r.Context(), f.Route, was, &ps)
	if err == nil && r.GetBody != nil {
		r.Body, err = r.GetBody()
	}
	if err != nil {
		ps.Release(weir.Ignored)
		o, gone := weir.Dropped, r.Context().Err() != nil
		if gone {
			o, failed = weir.Ignored, errClientGone
		} else {
			f.countSign(f.sign)
		}
		f.Class.Counts.CountOutcome(o, gone)
		f.mu.Lock()
		f.recordLocked(p.now(), o)
		f.mu.Unlock()
		f.answerFailure(w, r, failed)
		if f.upload != nil {
			f.upload.detach()
		}
		return
	}
	p.cfg.Origins.CountRetried(was)
	again := p.beginForward(w, r, &f.Request, f.arrival, &ps, p.now())
	again.moves = f.moves + 1
	if failed := again.serve(w, r); failed != nil {
		again.sendElsewhere(w, r, failed)
	}
}

// holdAbandoned keeps the permit of a forward without a client until the origin has
// answered, or AbandonedHold is over. Late means that the Timeout is over. Then an
// answer is Late, so that the limit judges by the duration, and a refusal, or none at
// all, is a sign of overload.
func (f *forward) holdAbandoned(late bool) {
	f.handler = handlerAbandoned
	f.forwarder.abandoned.Add(1)
	f.recordLeaving()
	go func() {
		over := time.NewTimer(f.forwarder.cfg.AbandonedHold)
		defer over.Stop()
		a, event := f.awaitEvent(nil, over.C)
		for event == originSilent || event == originOut {
			if event == originSilent {
				late = true
				if !f.moved {
					f.countSign(loadsign.Silent)
				}
			}
			a, event = f.awaitEvent(nil, over.C)
		}
		o := weir.Ignored
		switch {
		case event == originAnswered:
			sign := f.discardAnswer(a, late)
			switch o = sign.Outcome(); {
			case !late:
				if !f.moved {
					f.countSign(sign)
				}
				if o == weir.Success {
					o = outcome.Gone
				}
			case o != weir.Dropped:
				o = outcome.Late
			}
		case late:
			o = weir.Dropped
		}
		f.cancel()
		f.forwarder.abandoned.Add(-1)
		f.release(o)
		if event == holdOver {
			for event != originAnswered { // comes soon after the cancellation
				a, event = f.awaitEvent(nil, nil)
			}
			f.discardAnswer(a, true)
		}
	}()
}

// discardAnswer closes an answer that has no client, and returns its sign. Late means that the
// origin was judged already.
func (f *forward) discardAnswer(a origins.Answer, late bool) loadsign.Sign {
	if a.Panicked != nil {
		f.forwarder.cfg.Log.Error("the transport panicked on an abandoned request", "panic", a.Panicked)
	}
	if a.Resp != nil {
		a.Resp.Body.Close()
	}
	sign := signOf(a, f.upload)
	if !late {
		f.judgeAnswer(f.forwarder.now(), a, sign)
	}
	return sign
}

// takeIdleConn takes an idle connection to the origin for a brief request, if there is one.
func (f *forward) takeIdleConn(req *http.Request, to *origins.Origin) {
	if call := to.Start(req, f.inform); call != nil {
		f.call, f.cancel = call, call.Abort
	}
}

// sendOnIdleConn sends the request on the idle connection, and waits for the answer on this goroutine. It
// reports whether the request needs no other connection. If the client leaves or the Timeout is over
// before the answer begins, or the answer comes in parts, another goroutine goes on.
func (f *forward) sendOnIdleConn() bool {
	if f.call == nil {
		return false
	}
	switch resp, err := f.call.Do(); {
	case err == http1client.ErrInterrupted:
		go f.awaitCall()
	case err != nil && f.call.Stale():
		return false
	default:
		f.takeAnswer(origins.AnswerOf(resp, err))
	}
	return true
}

// awaitCall waits for the answer of the call, whatever happens.
func (f *forward) awaitCall() {
	defer func() {
		if v := recover(); v != nil {
			f.takeAnswer(origins.Answer{Panicked: v})
		}
	}()
	resp, err := f.call.Do()
	for err == http1client.ErrInterrupted {
		resp, err = f.call.Do()
	}
	f.takeAnswer(origins.AnswerOf(resp, err))
}

// watchClientLocked notes when the client leaves. Ordinary work is over before that is worth its cost:
// it is called when the alarm rings, unless the proxy must be prompt.
func (f *forward) watchClientLocked() {
	if f.unit != unitReleased && f.unwatchClient == nil {
		f.unwatchClient = context.AfterFunc(f.ctx, f.noteClientLeft)
	}
}

// noteClientLeft is called when the client has left. It ends the wait of call, or the answer.
func (f *forward) noteClientLeft() {
	f.mu.Lock()
	came := f.hasAnswer
	if !came {
		f.unwatchClient = nil // watchClientLocked calls it again if an answer comes
		if f.call != nil {
			f.call.Interrupt()
		}
	}
	f.mu.Unlock()
	if came {
		f.cancel()
	}
}
