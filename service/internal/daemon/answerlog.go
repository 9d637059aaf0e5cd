package daemon

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-go/weir/rate"
)

// maxLogged bounds the answers that are logged per second.
const maxLogged = 100

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
