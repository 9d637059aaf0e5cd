package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/rate"
)

// newServer returns an http.Server with the bounds that every server of ours
// needs against slow clients, and what it has to say in log.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(sparing{log.Handler(), rate.NewLimiter(10, 10)}, slog.LevelWarn),
	}
}

// timedWrites gives each write of an answer a deadline. Unlike http.Server's
// WriteTimeout, it does not bound how long the handler takes.
func timedWrites(next http.Handler, timeout time.Duration) http.Handler {
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

// sparing is a log of what peers can cause, as often as they like: ten lines a
// second of it are enough.
type sparing struct {
	slog.Handler
	lines *rate.Limiter
}

func (s sparing) Handle(ctx context.Context, r slog.Record) error {
	if !s.lines.Allow() {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// listen opens a TCP listener for a flag's address.
func listen(flag, addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("%s=%s: want host:port, such as 127.0.0.1:8000", flag, addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return ln, nil
}

// serve serves until ctx ends, then stops accepting and gives what is in
// flight the grace to finish: the requests that srv knows of, and whatever
// else the drained functions wait for. If the grace is too short, the rest is
// cut off and that is an error.
func serve(ctx context.Context, srv *http.Server, ln net.Listener, grace time.Duration, drained ...func(context.Context) error) error {
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
	for _, wait := range drained {
		if err == nil {
			err = wait(ctx)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		_ = srv.Close()
		return fmt.Errorf("--grace=%v was too short: what was still in flight is cut off", grace)
	}
	return err
}

// atLeast is the check of a flag's lower bound.
func atLeast[T int | float64 | time.Duration](least T, flag string, v T) error {
	if v < least {
		return usagef("%s=%v: must be >= %v", flag, v, least)
	}
	return nil
}

// orNone turns a flag's zero, which means none, into that of a Config, whose
// zero means the default.
func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}
