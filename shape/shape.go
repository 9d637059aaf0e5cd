// Package shape paces an io.Reader, an io.Writer or a net.Conn to a number of
// bytes per second. Any token bucket whose tokens are bytes sets the pace:
// package rate's, or that of golang.org/x/time/rate.
//
//	lim := rate.NewLimiter(64<<10, 16<<10) // 64 KiB/s, at most 16 KiB at once
//	n, err := io.Copy(dst, shape.NewReader(ctx, src, lim))
//
// One limiter may pace any number of readers, writers and connections: they
// share its rate.
//
// # Chunks
//
// Bytes pass in chunks, each paid for with one WaitN. A chunk is never larger
// than the limiter's burst. If the limiter tells its stock, as those above do
// by
//
//	TokensAt(t time.Time) float64
//
// a chunk is what it will have within 50 ms; where others have drained it in
// advance, what it gains in 50 ms; and never less than a byte. So a large
// burst passes at once, and what follows it flows evenly: one alone at the
// limiter waits 50 ms for a chunk, or as long as a single byte takes. The last
// of n that share it waits n times that. If the limiter does not tell, a chunk
// may be a whole burst: let the burst be small.
//
// # What is bounded
//
// Once the wait for them is over, bytes pass. So whatever the limiter promises
// holds for them: in any time d, no more than burst + rate·d. There is one
// exception: a reader hands over what it has read even if it cannot pay for
// it, because its context ended, its deadline passed or the limiter refused.
// It owes that chunk, and reads no more until it has paid. So no byte is lost,
// and a reader is never ahead by more than a chunk (with concurrent Reads, one
// each). A writer that has paid for what could not be written passes as much
// for free later.
//
// A reader bounds what the program takes, not what the peer sends: the kernel
// buffers some, and only when its buffers are full does TCP slow the peer
// down. Likewise a writer bounds what the program gives to the kernel. Headers,
// retransmissions and TLS records are not counted, unless the TLS connection
// is made on top of a Conn. To pace the requests of a service, rather than
// their bytes, use package rate.
package shape

import (
	"context"
	"io"
)

// A Limiter hands out tokens, each worth one byte. It must be safe for
// concurrent use; its rate and burst may change while it is in use.
type Limiter interface {
	// WaitN takes n tokens, as soon as they are there. It fails at once if n
	// exceeds the burst or the wait would outlast ctx's deadline, and without
	// delay when ctx ends.
	WaitN(ctx context.Context, n int) error
	// Burst returns the most that WaitN may be asked for. If it is less than
	// one, then either WaitN fails, and Read and Write with its error, or the
	// Limiter lets everything pass (rate.Inf).
	Burst() int
}

// A Reader paces the Reads from another reader. It is as safe for concurrent
// use as that one.
type Reader struct {
	r     io.Reader
	ctx   context.Context
	meter meter
}

// NewReader returns a Reader of r that lim paces until ctx ends. If lim is
// nil, only ctx bounds it.
func NewReader(ctx context.Context, r io.Reader, lim Limiter) *Reader {
	return &Reader{r: r, ctx: ctx, meter: meter{lim: lim, until: within(ctx)}}
}

// Read reads a chunk at most, and then waits until it is paid for: it pays
// for nothing that r did not give. The error is r's, the context's own once it
// has ended, or the limiter's. A wait that fails after r gave something is
// told by the next Read.
//
// The context does not interrupt r's own Read.
func (r *Reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.meter.read(r.r, p)
}

// A Writer paces the Writes to another writer. It is as safe for concurrent
// use as that one, but concurrent Writes may mingle their chunks.
type Writer struct {
	w     io.Writer
	ctx   context.Context
	meter meter
}

// NewWriter returns a Writer to w that lim paces until ctx ends. If lim is
// nil, only ctx bounds it.
func NewWriter(ctx context.Context, w io.Writer, lim Limiter) *Writer {
	return &Writer{w: w, ctx: ctx, meter: meter{lim: lim, until: within(ctx)}}
}

// Write writes p chunk by chunk, each as soon as it is paid for, and returns
// how many bytes of it w took. If that is not all, the error is w's, or
// io.ErrShortWrite where w gave none; the context's own once it has ended; or
// the limiter's.
//
// The context does not interrupt w's own Write.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.meter.write(w.w, p)
}

func within(ctx context.Context) func() (context.Context, error) {
	return func() (context.Context, error) { return ctx, ctx.Err() }
}
