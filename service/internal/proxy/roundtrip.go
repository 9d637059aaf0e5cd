package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/balance"
)

var (
	errTimeout    = errors.New("the origin did not answer in time")
	errClientGone = errors.New("the client left")
)

type answer struct {
	resp     *http.Response
	err      error
	panicked any
}

// roundTrip sends the request to the origin. It returns when the client leaves, or the Timeout
// is over. The request can outlive its client, and its end is an outcome for the limit. It
// changes the URL of the request.
func (x *exchange) roundTrip(req *http.Request) (*http.Response, error) {
	p := x.proxy
	ticket, err := p.origins.pick(x.admitted, -1)
	if err != nil {
		return nil, err
	}
	x.place(ticket)
	x.wake = make(chan struct{}, 1)
	var whole *url.URL
	if len(p.origins.list) > 1 {
		u := *req.URL
		whole = &u
	}
	p.origins.direct(req, ticket)
	x.takeIdle(req, p.origins.list[ticket.Origin])
	x.watchOrigin(x.admitted)
	if !x.call() {
		x.start(req, whole)
	}
	switch a, event := x.await(x.client.Done(), nil); event {
	case originAnswered:
		now := p.now()
		p.metrics.origin.Observe((now - x.admitted).Seconds())
		return x.answered(a, now)
	case clientLeft:
		if x.upload != nil {
			x.upload.clientGone()
		}
		x.abandon(false)
		return nil, errClientGone
	default:
		x.abandon(true)
		return nil, errTimeout
	}
}

// An event ends the wait for an answer.
type event uint8

const (
	originAnswered event = iota
	clientLeft
	originSilent // for the Timeout
	holdOver
)

// await waits for an event. The channels gone and over may be nil. No event is lost: its
// goroutine notes it in the exchange, and then fills the channel wake, which has room for one.
func (x *exchange) await(gone <-chan struct{}, over <-chan time.Time) (answer, event) {
	for {
		if a, event, ok := x.happened(); ok {
			return a, event
		}
		select {
		case <-x.wake:
		case <-gone:
			return answer{}, clientLeft
		case <-over:
			return answer{}, holdOver
		}
	}
}

// happened returns the event that has woken await.
func (x *exchange) happened() (a answer, e event, ok bool) {
	x.mu.Lock()
	came, silent := x.came, x.alarm.silent
	x.alarm.silent = false
	a = x.answer
	x.mu.Unlock()
	if came {
		return a, originAnswered, true
	}
	if silent {
		x.seen(loadsign.Silent)
		x.judge(x.proxy.now(), loadsign.Silent, balance.Failed, 0)
		return a, originSilent, true
	}
	return a, 0, false
}

// start sends the request on another goroutine, with a context that ends by release, and not
// with the client's request. The URL whole is that for another origin; nil if there is none.
func (x *exchange) start(req *http.Request, whole *url.URL) {
	ctx := x.inform.watch(req.Context())
	ctx, x.release = context.WithCancel(context.WithoutCancel(ctx))
	req = req.WithContext(ctx)
	go func() { x.hear(x.ask(req, whole)) }()
}

// hear passes the answer to await.
func (x *exchange) hear(a answer) {
	x.mu.Lock()
	x.answer, x.came, x.alarm.silence = a, true, never
	x.mu.Unlock()
	x.wakeUp()
}

// ask sends the request to the origin of the exchange. If that cannot be reached, it sends
// a request that may be repeated to another one. It returns a panic of the transport, for
// the goroutine of the handler.
func (x *exchange) ask(req *http.Request, whole *url.URL) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a = answer{panicked: v}
		}
	}()
	s := x.proxy.origins
	a = s.list[x.ticketNow().Origin].ask(req)
	if a.err != nil && whole != nil && notSent(a.err) && replayable(req) && req.Context().Err() == nil {
		if again, ok := x.elsewhere(req, a.err, whole); ok {
			a = s.list[again.Origin].ask(req)
		}
	}
	return a
}

// elsewhere moves the exchange to another origin, and directs the request there.
func (x *exchange) elsewhere(req *http.Request, failed error, whole *url.URL) (t balance.Ticket, ok bool) {
	s, was := x.proxy.origins, x.ticketNow()
	body := req.Body
	if req.GetBody != nil {
		var err error
		if body, err = req.GetBody(); err != nil {
			return t, false
		}
	}
	t, err := s.pick(x.proxy.now(), was.Origin)
	if err != nil {
		return t, false
	}
	x.judge(x.proxy.now(), loadsign.OfError(failed), balance.Unreachable, 0)
	s.list[was.Origin].retried.Add(1)
	if !x.place(t) {
		return t, false
	}
	req.Body, req.URL = body, whole
	s.direct(req, t)
	return t, true
}

// abandon keeps the permit of an exchange without a client until the origin has
// answered, or AbandonedHold is over. Late means that the Timeout is over. Then an
// answer is Late, so that the limit judges by the duration, and a refusal, or none at
// all, is a sign of overload.
func (x *exchange) abandon(late bool) {
	x.abandoned = true
	x.proxy.abandoned.Add(1)
	go func() {
		over := time.NewTimer(x.proxy.cfg.AbandonedHold)
		defer over.Stop()
		a, event := x.await(nil, over.C)
		for event == originSilent {
			late = true
			a, event = x.await(nil, over.C)
		}
		o := weir.Ignored
		switch {
		case event == originAnswered:
			sign := x.discard(a, late)
			switch o = sign.Outcome(); {
			case !late:
				x.seen(sign)
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
		x.proxy.abandoned.Add(-1)
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
func (x *exchange) discard(a answer, late bool) loadsign.Sign {
	if a.panicked != nil {
		x.proxy.log.Error("the transport panicked on an abandoned request", "panic", a.panicked)
	}
	if a.resp != nil {
		a.resp.Body.Close()
	}
	sign := signOf(a, x.upload)
	if !late {
		x.judgeAnswer(x.proxy.now(), a, sign)
	}
	return sign
}
