package daemon

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/inline"
)

// Bounds of what is logged per second.
const (
	maxLogged  = 100 // answers
	maxRefused = 10  // handshakes of peers that were refused, and of leaves
)

// logRefused returns a function that logs handshakes that were refused.
func (d *Daemon) logRefused(text string) func(from net.Addr, err error) {
	lines := rate.NewLimiter(maxRefused, maxRefused)
	return func(from net.Addr, err error) {
		if lines.Allow() {
			d.log.Warn(text, "from", from.String(), "reason", err)
		}
	}
}

// An answerLog logs the answers of a handler, for some classes of status.
type answerLog struct {
	log     *slog.Logger
	classes [6]bool
	lines   *rate.Limiter
	next    http.Handler
	writers sync.Pool // of *inlineStatusWriter
}

func logAnswers(log *slog.Logger, classes [6]bool, next http.Handler) http.Handler {
	if classes == ([len(classes)]bool{}) {
		return next
	}
	l := &answerLog{log: log, classes: classes, lines: rate.NewLimiter(maxLogged, maxLogged), next: next}
	l.writers.New = func() any { return new(inlineStatusWriter) }
	return l
}

func (l *answerLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, ok := w.(inline.Writer)
	if !ok {
		start, s := time.Now(), statusWriter{w, http.StatusOK}
		if l.next.ServeHTTP(&s, r); l.wants(s.status) {
			l.write(r, s.status, "took", time.Since(start))
		}
		return
	}
	// The request is answered at once: it is not worth two readings of the clock.
	s := l.writers.Get().(*inlineStatusWriter)
	s.statusWriter, s.fields = statusWriter{w, http.StatusOK}, to
	l.next.ServeHTTP(s, r)
	status := s.status
	*s = inlineStatusWriter{}
	l.writers.Put(s)
	if l.wants(status) {
		l.write(r, status)
	}
}

// wants reports whether an answer is logged.
func (l *answerLog) wants(status int) bool {
	class := status / 100
	return class < len(l.classes) && l.classes[class] && l.lines.Allow()
}

func (l *answerLog) write(r *http.Request, status int, more ...any) {
	l.log.Info("answer", append([]any{"status", status, "method", r.Method, "path", r.URL.EscapedPath(), "from", r.RemoteAddr}, more...)...)
}

// A statusWriter records the status.
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

// An inlineStatusWriter is a statusWriter of the inline transport.
type inlineStatusWriter struct {
	statusWriter
	fields inline.Writer
}

// SetField is for inline.Writer.
func (w *inlineStatusWriter) SetField(name, value string) { w.fields.SetField(name, value) }
