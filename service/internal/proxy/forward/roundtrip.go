package forward

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

var (
	errTimeout    = errors.New("the origin did not answer in time")
	errClientGone = errors.New("the client left")
)

// roundTrip sends the request to the origin. It returns when the client leaves, or the Timeout
// is over. The request can outlive its client, and its end is an outcome for the limit. It
// changes the URL of the request. If it has set moved, the request can be sent to another origin.
func (x *exchange) roundTrip(req *http.Request) (*http.Response, error) {
	p := x.forwarder
	if x.held != nil {
		return nil, x.held
	}
	to := p.cfg.Origins.At(x.permit.Place.Origin())
	x.wake = make(chan struct{}, 1)
	to.Direct(req)
	x.takeIdle(req, to)
	x.watchOrigin(x.admitted)
	if !x.call() {
		x.start(req, to)
	}
	for {
		switch a, event := x.await(x.ctx.Done(), nil); event {
		case originAnswered:
			now := p.now()
			p.cfg.Observer.OriginAnswered(now - x.admitted)
			return x.answered(req, a, now)
		case clientLeft:
			if x.upload != nil {
				x.upload.clientGone()
			}
			x.abandon(false)
			return nil, errClientGone
		case originSilent:
			if x.moved = x.movable(req, errTimeout); x.moved {
				x.sign = loadsign.Silent
				x.excuse()
			} else {
				x.seen(loadsign.Silent)
			}
			x.abandon(true)
			return nil, errTimeout
		case originOut:
			if x.moved = x.movable(req, errTimeout); x.moved {
				x.sign = loadsign.Silent
				x.abandon(false)
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

// await waits for an event. The channels gone and over may be nil. No event is lost: its
// goroutine notes it in the exchange, and then fills the channel wake, which has room for one.
func (x *exchange) await(gone <-chan struct{}, over <-chan time.Time) (origins.Answer, event) {
	for {
		if a, event, ok := x.happened(); ok {
			return a, event
		}
		select {
		case <-x.wake:
		case <-gone:
			return origins.Answer{}, clientLeft
		case <-over:
			return origins.Answer{}, holdOver
		}
	}
}

// happened returns the event that has woken await.
func (x *exchange) happened() (a origins.Answer, e event, ok bool) {
	x.mu.Lock()
	came, silent, out := x.came, x.alarm.silent, x.alarm.out
	x.alarm.silent, x.alarm.out = false, false
	a = x.answer
	x.mu.Unlock()
	if came {
		return a, originAnswered, true
	}
	if silent {
		x.forwarder.cfg.Origins.JudgeSilence(x.forwarder.now(), x.place())
		return a, originSilent, true
	}
	if out {
		return a, originOut, true
	}
	return a, 0, false
}

// start sends the request on another goroutine, with a context that ends by release, and not
// with the client's request.
func (x *exchange) start(req *http.Request, to *origins.Origin) {
	ctx := x.inform.Trace(req.Context())
	ctx, x.release = context.WithCancel(context.WithoutCancel(ctx))
	req = req.WithContext(ctx)
	go func() { x.hear(to.Send(req, &x.inform.Connected)) }()
}

// hear passes the answer to await.
func (x *exchange) hear(a origins.Answer) {
	x.mu.Lock()
	x.answer, x.came, x.alarm.silence = a, true, never
	x.mu.Unlock()
	x.wakeUp()
}

// movable reports whether a request without an answer may be sent to another origin: nothing was sent, because there is
// no connection; or it may be repeated, and the origin broke off, or is out because it answers nothing.
func (x *exchange) movable(req *http.Request, failed error) bool {
	s := x.forwarder.cfg.Origins
	if x.moves == origins.MaxMoves || s.Count() == 1 || x.ctx.Err() != nil {
		return false
	}
	switch {
	case origins.IsUnsent(failed):
		return rereadable(req) || x.upload.unread()
	case !idempotent(req), !rereadable(req):
		return false
	case failed == errTimeout:
		return s.IsOut(x.permit.Place.Origin())
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

// elsewhere sends the request of an exchange that has failed to another origin.
func (x *exchange) elsewhere(w http.ResponseWriter, r *http.Request, failed error) {
	p, was := x.forwarder, x.permit.Place.Origin()
	var ps limits.Units
	err := x.Class.Acquire(r.Context(), x.Route, was, &ps)
	if err == nil && r.GetBody != nil {
		r.Body, err = r.GetBody()
	}
	if err != nil {
		ps.Release(weir.Ignored)
		if r.Context().Err() != nil {
			x.Class.Counts.CountOutcome(weir.Ignored, true)
			failed = errClientGone
		} else {
			x.Class.Counts.CountOutcome(weir.Dropped, false)
			x.seen(x.sign)
		}
		x.fail(w, r, failed)
		if x.upload != nil {
			x.upload.detach()
		}
		return
	}
	p.cfg.Origins.CountRetried(was)
	again := p.begin(w, r, x.Request, &ps, p.now())
	again.moves = x.moves + 1
	if failed := again.run(w, r); failed != nil {
		again.elsewhere(w, r, failed)
	}
}

// abandon keeps the permit of an exchange without a client until the origin has
// answered, or AbandonedHold is over. Late means that the Timeout is over. Then an
// answer is Late, so that the limit judges by the duration, and a refusal, or none at
// all, is a sign of overload.
func (x *exchange) abandon(late bool) {
	x.abandoned = true
	x.forwarder.abandoned.Add(1)
	go func() {
		over := time.NewTimer(x.forwarder.cfg.AbandonedHold)
		defer over.Stop()
		a, event := x.await(nil, over.C)
		for event == originSilent || event == originOut {
			if event == originSilent {
				late = true
				if !x.moved {
					x.seen(loadsign.Silent)
				}
			}
			a, event = x.await(nil, over.C)
		}
		o := weir.Ignored
		switch {
		case event == originAnswered:
			sign := x.discard(a, late)
			switch o = sign.Outcome(); {
			case !late:
				if !x.moved {
					x.seen(sign)
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
		x.release()
		x.forwarder.abandoned.Add(-1)
		x.end(o)
		if event == holdOver {
			for event != originAnswered { // comes soon after the cancellation
				a, event = x.await(nil, nil)
			}
			x.discard(a, true)
		}
	}()
}

// discard closes an answer that has no client, and returns its sign. Late means that the
// origin was judged already.
func (x *exchange) discard(a origins.Answer, late bool) loadsign.Sign {
	if a.Panicked != nil {
		x.forwarder.cfg.Log.Error("the transport panicked on an abandoned request", "panic", a.Panicked)
	}
	if a.Resp != nil {
		a.Resp.Body.Close()
	}
	sign := signOf(a, x.upload)
	if !late {
		x.judgeAnswer(x.forwarder.now(), a, sign)
	}
	return sign
}
