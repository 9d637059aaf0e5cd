// Package httpserve has what the HTTP servers of the weir command share: bounds
// against slow clients, a bounded error log, and a graceful end.
package httpserve

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/rate"
)

// New returns an http.Server with bounds against slow clients, which writes at most
// ten errors a second to log.
func New(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          errorLog(log),
	}
}

// errorLog returns a logger of warnings that writes at most ten lines a second.
func errorLog(log *slog.Logger) *stdlog.Logger {
	return slog.NewLogLogger(limitedLog{log.Handler(), rate.NewLimiter(10, 10)}, slog.LevelWarn)
}

// CatchLog sends the lines of package log to log, at most ten a second, until restore is called.
// http.Transport logs there what a server sends without a request, at any rate.
func CatchLog(log *slog.Logger) (restore func()) {
	out, flags := stdlog.Writer(), stdlog.Flags()
	stdlog.SetOutput(errorLog(log).Writer())
	stdlog.SetFlags(0)
	return func() {
		stdlog.SetOutput(out)
		stdlog.SetFlags(flags)
	}
}

const (
	// MaxStreams bounds the concurrent requests of an HTTP/2 connection. net/http queues
	// four times as many that the client has reset.
	MaxStreams = 250
	// pingAfter is the silence of an HTTP/2 connection before a ping.
	pingAfter = time.Minute
	// streamBuffer bounds the bytes of bodies that an HTTP/2 connection buffers.
	streamBuffer = 256 << 10
	// maxFrame is the size of an HTTP/2 connection's buffer for frames.
	maxFrame = 16 << 10
)

// SpeakHTTP2 lets a server speak HTTP/2, with bounds, on connections without TLS, or with TLS that
// ends below the server. A client may take as long as timeout to answer a ping, or to take bytes; if zero,
// net/http's default and for ever. The server's Handler must be set before.
func SpeakHTTP2(srv *http.Server, timeout time.Duration) {
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: MaxStreams, MaxReadFrameSize: maxFrame,
		MaxReceiveBufferPerConnection: streamBuffer, MaxReceiveBufferPerStream: streamBuffer,
		SendPingTimeout: pingAfter, PingTimeout: timeout, WriteByteTimeout: timeout,
	}
	srv.Handler = forgetReset(srv.Handler)
}

// forgetReset returns next, after which no deadline is left of a stream that the client has reset. If a handler sets a deadline
// after the reset, net/http keeps the stream until then. A reset while the handler returns can still cause that.
func forgetReset(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			next.ServeHTTP(w, r)
			return
		}
		defer func() {
			if r.Context().Err() != nil {
				stream := http.NewResponseController(w)
				_ = stream.SetReadDeadline(time.Time{}) // there is no error over HTTP/2
				_ = stream.SetWriteDeadline(time.Time{})
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// TimeWrites gives each write of an answer a deadline. Unlike http.Server's
// WriteTimeout, it does not bound the time that the handler takes.
func TimeWrites(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&timedWriter{w, timeout}, r)
	})
}

type timedWriter struct {
	http.ResponseWriter
	timeout time.Duration
}

// Write renews the deadline, which net/http removes after the answer.
func (w *timedWriter) Write(b []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout)) // or else without one
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limitedLog drops lines above a rate, because clients cause them at any rate.
type limitedLog struct {
	slog.Handler
	lines *rate.Limiter
}

func (s limitedLog) Handle(ctx context.Context, r slog.Record) error {
	if !s.lines.Allow() {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// Serve serves until ctx ends. Then it stops accepting connections and waits up to
// grace for the requests in flight, and until idle, if not nil, reports true. If grace
// is too short, it closes the connections and returns an error.
func Serve(ctx context.Context, srv *http.Server, ln net.Listener, grace time.Duration, idle func() bool) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err == nil && idle != nil {
		err = Until(ctx, idle)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		_ = srv.Close()
		return fmt.Errorf("--grace=%v was too short: requests in flight were cut off", grace)
	}
	return err
}

// Leave returns next with answers that make clients leave if asked reports true for their
// request: over HTTP/1 by Connection: close, over HTTP/2 by GOAWAY, which net/http makes of
// that.
func Leave(next http.Handler, asked func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked(r) && len(r.Header["Upgrade"]) == 0 { // the answer to an upgrade has another Connection
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Until waits until done reports true. If ctx ends before, it returns ctx's error.
func Until(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
