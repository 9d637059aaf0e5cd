package daemon

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/rate"
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

// logAnswers logs the answers of a handler, for some classes of status.
func logAnswers(log *slog.Logger, classes [6]bool, next http.Handler) http.Handler {
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
