package httplimit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/weir-go/weir"
)

// A heldBody holds a permit until it is read to its end, fails or is closed.
type heldBody struct {
	io.ReadCloser
	ctx     context.Context
	outcome weir.Outcome // if it ends well
	t       *Transport
	h       *host

	cut    atomic.Bool // it was copied, and not to its end
	ended  atomic.Bool // whoever sets it may use permit
	permit weir.Permit
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

func (b *heldBody) end(o weir.Outcome) {
	if !b.ended.Swap(true) {
		b.permit.Release(o)
		b.t.leave(b.h)
	}
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		b.end(b.outcome)
	case err != nil:
		b.cut.Store(true)
		b.end(b.closed())
	}
	return n, err
}

// closed is the outcome if it is at its end without having told so.
func (b *heldBody) closed() weir.Outcome {
	o := b.outcome
	if o == weir.Success && b.cut.Load() {
		o = weir.Ignored
	}
	return abandoned(b.ctx, o)
}

// WriteTo lets the body and w copy in their own ways, if they have any.
func (b *heldBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, b.ReadCloser)
	if err == nil {
		b.end(b.outcome)
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

// maxKept bounds the body of an answer that is kept while it is retried.
const maxKept = 64 << 10

// keep takes a response out of its connection, so that it can be returned if
// the retry is not sent, and reports whether it is all there. If not, the
// response is as good as before.
func keep(resp *http.Response) bool {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		return true
	}
	if resp.ContentLength > maxKept {
		return false
	}
	start, err := io.ReadAll(io.LimitReader(resp.Body, maxKept+1))
	rest := resp.Body
	if err == nil && len(start) <= maxKept {
		_ = rest.Close()
		resp.Body = io.NopCloser(bytes.NewReader(start))
		return true
	}
	tail := io.Reader(rest)
	if err != nil {
		tail = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), tail), rest}
	return false
}

// failing is the end of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
