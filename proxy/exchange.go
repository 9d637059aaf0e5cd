package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
)

var (
	errTimeout    = errors.New("the origin did not answer in time")
	errClientGone = errors.New("the client left")
)

// An exchange is one admitted request and the permit it holds. All of it
// belongs to the goroutine that serves the request.
type exchange struct {
	proxy     *Proxy
	permit    weir.Permit
	client    *http.ResponseController
	outcome   weir.Outcome
	upload    *upload // the request's body, if it has one
	release   func()  // frees what carries the request to the origin; nil before that
	abandoned bool    // a hold has the permit, and finishes
	whole     bool    // the handler did not panic, as it does when a body breaks off
}

type exchangeKey struct{}

// finish ends the exchange, when its handler returns or panics.
func (x *exchange) finish() {
	if x.upload != nil {
		x.upload.detach()
	}
	if x.abandoned {
		return
	}
	if x.release != nil {
		x.release()
	}
	if !x.whole && x.outcome == weir.Success {
		x.outcome = weir.Ignored
	}
	x.permit.Release(x.outcome)
}

// A carrier is the http.RoundTripper of the ReverseProxy. It lets the request
// to the origin outlive its client, and judges how the origin took it.
type carrier struct {
	proxy *Proxy
	inner http.RoundTripper
}

type answer struct {
	resp     *http.Response
	err      error
	panicked any
}

// RoundTrip asks the origin, for as long as the client waits and the origin's
// time lasts.
func (c carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	client := req.Context()
	x := client.Value(exchangeKey{}).(*exchange)
	ctx, cancel := context.WithCancel(context.WithoutCancel(client))
	x.release = cancel

	began := time.Now()
	patience := newPatience(c.proxy.cfg.Timeout)
	req = req.WithContext(ctx)
	if req.Body != nil {
		x.upload = &upload{body: req.Body, client: x.client, limit: c.proxy.cfg.ClientTimeout, patience: patience}
		req.Body = x.upload
	}
	answered := make(chan answer, 1)
	go func() { answered <- c.ask(req) }()

	select {
	case a := <-answered:
		patience.stop()
		c.proxy.metrics.origin.Observe(time.Since(began).Seconds())
		return x.answered(a, client)
	case <-client.Done():
		if x.upload != nil {
			x.upload.clientGone()
		}
		x.abandon(answered, patience, false)
		return nil, errClientGone
	case <-patience.over():
		x.abandon(answered, patience, true)
		return nil, errTimeout
	}
}

// ask carries the request. A panic of the transport is carried back, to where
// net/http deals with it.
func (c carrier) ask(req *http.Request) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a = answer{panicked: v}
		}
	}()
	resp, err := c.inner.RoundTrip(req)
	return answer{resp: resp, err: err}
}

// answered takes the origin's answer while its client waits for it.
func (x *exchange) answered(a answer, client context.Context) (*http.Response, error) {
	if a.panicked != nil {
		panic(a.panicked)
	}
	x.outcome = signOf(a, x.upload).Outcome()
	if a.err != nil {
		return nil, a.err
	}
	// From here on the origin sends: to stop it when the client leaves is to
	// close the connection.
	release := x.release
	stop := context.AfterFunc(client, release)
	x.release = func() { stop(); release() }
	return a.resp, nil
}

// abandon hands the permit of an exchange that nobody waits for to a hold. Late
// says that the origin has had its time.
func (x *exchange) abandon(answered <-chan answer, patience patience, late bool) {
	x.abandoned = true
	h := hold{x.proxy, x.permit, x.upload, x.release, answered, patience, late}
	x.proxy.abandoned.Add(1)
	go h.run()
}

// A hold keeps the permit of an abandoned exchange until the origin has
// answered, or AbandonedHold is over.
type hold struct {
	proxy    *Proxy
	permit   weir.Permit
	upload   *upload
	release  func()
	answered <-chan answer
	patience patience
	late     bool
}

func (h hold) run() {
	outcome, answered := h.wait()
	if h.late {
		outcome = late(outcome, answered)
	}
	h.patience.stop()
	h.release()
	h.proxy.abandoned.Add(-1)
	h.permit.Release(outcome)
	if !answered {
		h.judge(<-h.answered) // soon, now that it is cancelled
	}
}

// late is the outcome of work that the origin had its time for: Late if it has
// ended, so that the limit may judge why. If it refused, or if nobody knows
// when it will end, that is a sign of overload whatever time it took.
func late(outcome weir.Outcome, ended bool) weir.Outcome {
	if !ended || outcome == weir.Dropped {
		return weir.Dropped
	}
	return weir.Late
}

func (h *hold) wait() (outcome weir.Outcome, answered bool) {
	over := time.NewTimer(h.proxy.cfg.AbandonedHold)
	defer over.Stop()
	for {
		select {
		case a := <-h.answered:
			return h.judge(a), true
		case <-h.patience.over():
			h.late = true
		case <-over.C:
			return weir.Ignored, false
		}
	}
}

// judge takes an answer that comes when nobody waits for it.
func (h *hold) judge(a answer) weir.Outcome {
	if a.panicked != nil {
		h.proxy.log.Error("the transport panicked on an abandoned request", "panic", a.panicked)
		return weir.Ignored
	}
	if a.resp != nil {
		a.resp.Body.Close()
	}
	return signOf(a, h.upload).Outcome()
}

// patience runs while it is the origin's turn: it is over when the origin has
// kept the proxy waiting for too long.
type patience struct {
	timer *time.Timer // nil: endless
	limit time.Duration
}

func newPatience(limit time.Duration) patience {
	if limit < 0 {
		return patience{}
	}
	return patience{time.NewTimer(limit), limit}
}

func (p patience) over() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

func (p patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p patience) restart() {
	if p.timer != nil {
		p.timer.Reset(p.limit)
	}
}
