// Package shape limits the bytes per second of an io.Reader, an io.Writer or a
// net.Conn, for example so that one download does not use the whole link:
//
//	lim := rate.NewLimiter(64<<10, 16<<10) // 64 KiB/s, at most 16 KiB at once
//	n, err := io.Copy(dst, shape.NewReader(ctx, src, lim))
//
// Any token bucket sets the pace, with one token per byte: package rate's, or
// that of golang.org/x/time/rate. One limiter may pace any number of readers,
// writers and connections: they share its rate.
//
// # Chunks
//
// Bytes pass in chunks, and each chunk is paid for with one WaitN. A chunk is
// never larger than the limiter's burst. If the limiter has a method
//
//	TokensAt(t time.Time) float64
//
// as both do, a chunk has as many bytes as tokens will be available within 50 ms, and
// at least one. So a large burst passes at once, and later bytes flow evenly: a single
// user of the limiter waits 50 ms for a chunk, or the time of one byte if that is
// longer. Each of n users waits n times as long. Without TokensAt a chunk may be a
// whole burst: choose a small burst.
//
// # What is bounded
//
// Bytes pass after the wait for them, so the limiter's bound holds for them: at
// most burst + rate·d in any time d. There is one exception. A reader returns
// what it has read even if it cannot pay for it, because its context ended, its
// deadline passed or the limiter refused. It owes that chunk, and reads no more
// until it is paid for. So no byte is lost, and a reader is never ahead by more
// than one chunk (one per Read, if several run at once). A writer that has paid
// for bytes that could not be written passes as many for free later.
//
// A reader bounds what the program takes, not what the peer sends: TCP slows
// the peer down only when the kernel's buffers are full. Likewise, a writer
// bounds what the program gives to the kernel. Headers, retransmissions and TLS
// records are not counted, unless the TLS connection runs on top of a paced one.
// To limit the requests of a service and not their bytes, use package rate.
package shape

import (
	"context"
	"io"
)

// A Limiter grants tokens, each worth one byte. It must be safe for concurrent
// use; its rate and burst may change while it is in use.
type Limiter interface {
	// WaitN waits until n tokens are available and takes them. It fails at once if n
	// exceeds the burst or the wait would exceed ctx's deadline, and as soon as
	// ctx ends.
	WaitN(ctx context.Context, n int) error
	// Burst returns the largest n of WaitN. If it is less than one, WaitN either
	// fails, and then Read and Write return its error, or it never waits
	// (rate.Inf).
	Burst() int
}

// NewReader returns a reader of r that lim paces until ctx ends. If lim is
// nil, only ctx bounds it. It is as safe for concurrent use as r.
//
// A Read reads at most one chunk, and then waits until that is paid for. The error comes
// from r, from the context once it has ended, or from the limiter. The next Read returns
// the error of a wait that failed after r had returned bytes. The end of the context does
// not interrupt a Read of r.
func NewReader(ctx context.Context, r io.Reader, lim Limiter) io.Reader {
	return &reader{Reader: r, meter: meter{lim: lim, until: within(ctx)}}
}

// NewWriter returns a writer to w that lim paces until ctx ends. If lim is
// nil, only ctx bounds it. It is as safe for concurrent use as w, but the
// chunks of concurrent Writes may mix.
//
// A Write writes chunk by chunk, after each is paid for, and returns how many
// bytes w took. If w did not take all, the error comes from w (io.ErrShortWrite
// if w returned none), from the context once it has ended, or from the limiter. The
// end of the context does not interrupt a Write of w.
func NewWriter(ctx context.Context, w io.Writer, lim Limiter) io.Writer {
	return &writer{Writer: w, meter: meter{lim: lim, until: within(ctx)}}
}

type reader struct {
	io.Reader
	meter meter
}

func (r *reader) Read(p []byte) (int, error) {
	if _, err := r.meter.until(); err != nil {
		return 0, err
	}
	return r.meter.read(r.Reader, p)
}

type writer struct {
	io.Writer
	meter meter
}

func (w *writer) Write(p []byte) (int, error) {
	if _, err := w.meter.until(); err != nil {
		return 0, err
	}
	return w.meter.write(w.Writer, p)
}

func within(ctx context.Context) func() (context.Context, error) {
	return func() (context.Context, error) { return ctx, ctx.Err() }
}
