package main

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/rate"
)

// serveLog is what the server says of what it does.
type serveLog struct {
	LogFormat         string     `short:"l" default:"text" enum:"text,json,system-default" env:"WEIR_LOG_FORMAT,LOG_FORMAT" placeholder:"NAME" help:"text or json (${default})."`
	LogLevel          slog.Level `default:"info" env:"WEIR_LOG_LEVEL,LOG_LEVEL" placeholder:"LEVEL" help:"debug, info, warn or error (${default})."`
	LogIncludesSource bool       `env:"WEIR_LOG_INCLUDES_SOURCE,LOG_INCLUDES_SOURCE" help:"Say which line of the source says it."`
	Log2xx            bool       `name:"log2xx" env:"WEIR_LOG2XX,LOG_2XX" help:"Log answers 2xx; of all answers, 100 a second at most."`
	Log4xx            bool       `name:"log4xx" env:"WEIR_LOG4XX,LOG_4XX" help:"Log answers 4xx, which are mostly refusals."`
	Log5xx            bool       `name:"log5xx" default:"true" env:"WEIR_LOG5XX,LOG_5XX" help:"Log answers 5xx; --log5xx=false does not."`
}

// logger returns the log to out.
func (l *serveLog) logger(out io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: l.LogLevel, AddSource: l.LogIncludesSource}
	if l.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, opts)), nil
	}
	return slog.New(slog.NewTextHandler(out, opts)), nil
}

// maxLogged bounds the answers that are logged, a second.
const maxLogged = 100

// logged logs the answers of a handler that shall be.
func (l *serveLog) logged(log *slog.Logger, next http.Handler) http.Handler {
	classes := [...]bool{2: l.Log2xx, 4: l.Log4xx, 5: l.Log5xx}
	if classes == ([len(classes)]bool{}) {
		return next
	}
	lines := rate.NewLimiter(maxLogged, maxLogged)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		s := statusWriter{w, http.StatusOK}
		next.ServeHTTP(&s, r)
		if class := s.status / 100; class < len(classes) && classes[class] && lines.Allow() {
			log.Info("answer", "status", s.status, "method", r.Method, "path", r.URL.EscapedPath(), "from", r.RemoteAddr, "took", time.Since(start))
		}
	})
}

// A statusWriter remembers the status.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
