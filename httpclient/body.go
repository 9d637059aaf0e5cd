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

// A heldBody is the body of a response. It holds a permit until it is read to its
// end, fails or is closed, or until its context ends.
type heldBody struct {
	io.ReadCloser
	ctx  context.Context
	sign loadsign.Sign // of the response, if the body ends without an error
	h    *host

	cut    atomic.Bool // reading failed before the end
	ended  atomic.Bool // the goroutine that sets it releases permit
	permit weir.Permit
	stop   func() bool // stops watching ctx; nil if it is not watched
}

// as returns b as a body that can be written to if inner can: the connection has
// changed its protocol then.
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

// watch releases the permit when the context ends, because Base ends the body
// then, even if the caller never closes it. Base does not do that for a connection
// that has changed its protocol.
func (b *heldBody) watch(status int) {
	if b.ctx.Done() != nil && status != http.StatusSwitchingProtocols {
		b.stop = context.AfterFunc(b.ctx, func() { b.release(b.closed()) })
	}
}

// end releases the permit and stops watching the context.
func (b *heldBody) end(o weir.Outcome) {
	if b.stop != nil {
		b.stop()
	}
	b.release(o)
}

func (b *heldBody) release(o weir.Outcome) {
	if !b.ended.Swap(true) {
		b.permit.Release(o)
		b.h.users.Add(-1)
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

// closed returns the outcome of a body that has ended without io.EOF.
func (b *heldBody) closed() weir.Outcome {
	sign := b.sign
	if sign == loadsign.Served && b.cut.Load() {
		sign = loadsign.None
	}
	return sign.Unseen(b.ctx.Err())
}

// Close releases the permit. Many callers close a body before its end, because they
// have read enough.
func (b *heldBody) Close() error {
	err := b.ReadCloser.Close()
	b.end(b.closed())
	return err
}

// finish releases the permit of a response that is kept unread.
func (b *heldBody) finish() { b.end(b.closed()) }

// Bounds on reading a body only so that its connection can be used again.
const (
	maxDiscarded = 64 << 10
	discardTime  = time.Second
)

// discard reads the rest of a response that is retried, and closes it, in the
// background.
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
