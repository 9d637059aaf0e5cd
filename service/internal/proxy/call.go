package proxy

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/service/internal/http1client"
)

// call sends a simple request on an idle connection to the origin, and waits for the answer on
// this goroutine. It reports whether there was such a connection. If the client leaves or the
// Timeout is over before the answer begins, or the answer comes in parts, another goroutine goes on.
func (x *exchange) call(req *http.Request, to *originServer) bool {
	if x.inform == nil || to.client == nil || !brief(req) {
		return false
	}
	call := to.client.Start(req, x.inform.pass)
	if call == nil {
		return false
	}
	x.release = call.Abort
	x.mu.Lock()
	x.calling = call
	if _, ok := x.client.Deadline(); ok {
		x.heedLocked()
	}
	x.mu.Unlock()
	switch resp, err := call.Do(); {
	case err == http1client.ErrInterrupted:
		go x.goOn(call)
	case err != nil && call.Stale():
		return false
	default:
		x.hear(answerOf(resp, err))
	}
	return true
}

// goOn waits for the answer of a call, whatever happens.
func (x *exchange) goOn(call *http1client.Call) {
	resp, err := call.Do()
	for err == http1client.ErrInterrupted {
		resp, err = call.Do()
	}
	x.hear(answerOf(resp, err))
}

// heedLocked notes when the client leaves. Ordinary work is over before that is worth its cost: it
// begins when the alarm rings.
func (x *exchange) heedLocked() {
	if !x.ended && x.stopHeeding == nil {
		x.stopHeeding = context.AfterFunc(x.client, x.left)
	}
}

// left is called when the client has left. It ends the wait of call, or the answer.
func (x *exchange) left() {
	x.mu.Lock()
	came := x.came
	if !came && x.calling != nil {
		x.calling.Interrupt()
	}
	x.mu.Unlock()
	if came {
		x.release()
	}
}
