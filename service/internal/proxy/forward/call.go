package forward

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/service/internal/http1client"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// takeIdle takes an idle connection to the origin for a brief request, if there is one.
func (x *exchange) takeIdle(req *http.Request, to *origins.Origin) {
	if call := to.Start(req, x.inform.Pass); call != nil {
		x.calling, x.release = call, call.Abort
	}
}

// call sends the request on the idle connection, and waits for the answer on this goroutine. It
// reports whether the request needs no other connection. If the client leaves or the Timeout is over
// before the answer begins, or the answer comes in parts, another goroutine goes on.
func (x *exchange) call() bool {
	if x.calling == nil {
		return false
	}
	switch resp, err := x.calling.Do(); {
	case err == http1client.ErrInterrupted:
		go x.goOn()
	case err != nil && x.calling.Stale():
		return false
	default:
		x.hear(origins.AnswerOf(resp, err))
	}
	return true
}

// goOn waits for the answer of the call, whatever happens.
func (x *exchange) goOn() {
	defer func() {
		if v := recover(); v != nil {
			x.hear(origins.Answer{Panicked: v})
		}
	}()
	resp, err := x.calling.Do()
	for err == http1client.ErrInterrupted {
		resp, err = x.calling.Do()
	}
	x.hear(origins.AnswerOf(resp, err))
}

// heedLocked notes when the client leaves. Ordinary work is over before that is worth its cost:
// it is called when the alarm rings, unless the proxy must be prompt.
func (x *exchange) heedLocked() {
	if !x.ended && x.stopHeeding == nil {
		x.stopHeeding = context.AfterFunc(x.ctx, x.left)
	}
}

// left is called when the client has left. It ends the wait of call, or the answer.
func (x *exchange) left() {
	x.mu.Lock()
	came := x.came
	if !came {
		x.stopHeeding = nil // heedLocked calls left again if an answer comes
		if x.calling != nil {
			x.calling.Interrupt()
		}
	}
	x.mu.Unlock()
	if came {
		x.release()
	}
}
