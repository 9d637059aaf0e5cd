package httpclient

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
)

// A heldBody holds a permit until it is read to its end, fails or is closed, or
// until its context ends.
type heldBody struct {
	io.ReadCloser
	ctx  context.Context
	sign loadsign.Sign // if it ends well
	t    *Transport
	h    *host

	cut    atomic.Bool // it was copied, and not to its end
	ended  atomic.Bool // whoever sets it may use permit
	permit weir.Permit
	stop   func() bool // of the watch; nil if there is none
}

// as returns a body that can be written to if inner can: that of a connection
// that has changed its protocol.
func (b *heldBody) as(inner io.ReadCloser) io.ReadCloser {
	if w, ok := inner.(io.Writer); ok {
		return writableBody{b, w}
	}
	return b
}

type writableBody struct {
	*heldBody
	io.Writer
}

// watch ends the work with its context: Base ends the body then, be it closed or
// forgotten. That is not so of a connection that has changed its protocol.
func (b *heldBody) watch(status int) {
	if b.ctx.Done() != nil && status != http.StatusSwitchingProtocols {
		b.stop = context.AfterFunc(b.ctx, func() { b.release(b.closed()) })
	}
}

// end ends the work, and the watch. Only who has been given the body calls it.
func (b *heldBody) end(o weir.Outcome) {
	if b.stop != nil {
		b.stop()
	}
	b.release(o)
}

func (b *heldBody) release(o weir.Outcome) {
	if !b.ended.Swap(true) {
		b.permit.Release(o)
		b.t.leave(b.h)
	}
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.end(b.sign.Outcome())
	case err != nil:
		b.cut.Store(true)
		b.end(b.closed())
	}
	return n, err
}

// closed is the outcome if it is at its end without having told so.
func (b *heldBody) closed() weir.Outcome {
	sign := b.sign
	if sign == loadsign.Served && b.cut.Load() {
		sign = loadsign.None
	}
	return sign.Unseen(b.ctx.Err())
}

// WriteTo lets the body and w copy in their own ways, if they have any.
func (b *heldBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, b.ReadCloser)
	if err == nil {
		b.end(b.sign.Outcome())
	} else {
		b.cut.Store(true) // by either of them
	}
	return n, err
}

// Close ends the work, as far as anybody knows: many who have what they want
// never see the end of a body.
func (b *heldBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(b.closed())
	return err
}

// finish gives back what the body holds although it is unread: its response is
// all that anybody wants to know.
func (b *heldBody) finish() { b.end(b.closed()) }

// Bounds on what is read of a body that nobody wants, so that its connection is
// free again.
const (
	maxDiscarded = 64 << 10
	discardTime  = time.Second
)

// discard lets go of the body of a response that is retried, and waits for
// nothing.
func discard(resp *http.Response) {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	body, length := resp.Body, resp.ContentLength
	go func() {
		late := time.AfterFunc(discardTime, func() { _ = body.Close() })
		if length <= maxDiscarded {
			_, _ = io.CopyN(io.Discard, body, maxDiscarded+1) // one more, to see the end
		}
		if late.Stop() {
			_ = body.Close()
		}
	}()
}
