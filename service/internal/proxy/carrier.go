package proxy

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/internal/outcome"
)

var (
	errTimeout    = errors.New("the origin did not answer in time")
	errClientGone = errors.New("the client left")
)

// A carrier is the http.RoundTripper of the ReverseProxy. The request to the origin
// can outlive its client, and its end is an outcome for the limit.
type carrier struct {
	proxy *Proxy
	inner http.RoundTripper
}

type answer struct {
	resp     *http.Response
	err      error
	panicked any
}

// RoundTrip sends the request to the origin. It returns when the client leaves, or
// the Timeout is over.
func (c carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	client := req.Context()
	x := client.Value(exchangeKey{}).(*exchange)
	ctx, cancel := context.WithCancel(context.WithoutCancel(client))
	x.release = cancel

	began := time.Now()
	patience := newPatience(c.proxy.cfg.Timeout)
	req = req.WithContext(ctx)
	switch {
	case req.Body == nil, req.GetBody != nil:
	default:
		x.upload = &upload{body: req.Body, client: x.client, limit: c.proxy.cfg.ClientTimeout, patience: patience, exchange: x}
		req.Body = x.upload
	}
	answered := make(chan answer, 1)
	go func() { answered <- c.ask(req) }()

	wait := time.NewTimer(2 * x.proxy.usually())
	defer wait.Stop()
	for {
		select {
		case a := <-answered:
			patience.Stop()
			c.proxy.metrics.origin.Observe(time.Since(began).Seconds())
			return x.answered(a, client)
		case <-client.Done():
			if x.upload != nil {
				x.upload.clientGone()
			}
			x.abandon(answered, patience, false)
			return nil, errClientGone
		case <-patience.C:
			x.proxy.seen(loadsign.Silent)
			x.abandon(answered, patience, true)
			return nil, errTimeout
		case <-wait.C:
			x.checkWait(wait)
		}
	}
}

// ask sends the request. It returns a panic of the transport, for the goroutine of
// the handler.
func (c carrier) ask(req *http.Request) (a answer) {
	defer func() {
		if v := recover(); v != nil {
			a = answer{panicked: v}
		}
	}()
	resp, err := c.inner.RoundTrip(req)
	return answer{resp: resp, err: err}
}

// abandon hands an exchange without a client to a hold. Late means that the Timeout
// is over.
func (x *exchange) abandon(answered <-chan answer, patience patience, late bool) {
	x.abandoned = true
	h := hold{x, answered, patience, late}
	x.proxy.abandoned.Add(1)
	go h.run()
}

// A hold keeps the permit of an abandoned exchange until the origin has
// answered, or AbandonedHold is over.
type hold struct {
	*exchange
	answered <-chan answer
	patience patience
	late     bool
}

func (h hold) run() {
	outcome, answered := h.wait()
	if h.late {
		outcome = late(outcome, answered)
	}
	h.patience.Stop()
	h.release()
	h.proxy.abandoned.Add(-1)
	h.end(outcome)
	if !answered {
		h.judge(<-h.answered) // comes soon after the cancellation
	}
}

// late returns the outcome of work that has exceeded the Timeout: Late if it has
// ended, so that the limit judges by the duration. If the origin refused, or has
// not answered at all, that is a sign of overload.
func late(o weir.Outcome, ended bool) weir.Outcome {
	if !ended || o == weir.Dropped {
		return weir.Dropped
	}
	return outcome.Late
}

func (h *hold) wait() (outcome weir.Outcome, answered bool) {
	over := time.NewTimer(h.proxy.cfg.AbandonedHold)
	defer over.Stop()
	wait := time.NewTimer(2 * h.proxy.usually())
	defer wait.Stop()
	for {
		select {
		case a := <-h.answered:
			if !h.late {
				h.proxy.seen(signOf(a, h.upload))
			}
			return h.judge(a), true
		case <-h.patience.C:
			h.late = true
			h.proxy.seen(loadsign.Silent)
		case <-wait.C:
			h.checkWait(wait)
		case <-over.C:
			return weir.Ignored, false
		}
	}
}

// judge returns the outcome of an answer that has no client, and closes its body.
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
