package daemon

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/httpserve"
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
}

func logAnswers(log *slog.Logger, classes [6]bool, next http.Handler) http.Handler {
	if classes == ([len(classes)]bool{}) {
		return next
	}
	return &answerLog{log: log, classes: classes, lines: rate.NewLimiter(maxLogged, maxLogged), next: next}
}

func (l *answerLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if to, ok := w.(inline.Writer); ok {
		// The request is answered at once: it is not worth two readings of the clock.
		if l.next.ServeHTTP(w, r); l.wants(to.Status()) {
			l.write(r, to.Status())
		}
		return
	}
	start, s := time.Now(), httpserve.StatusWriter{ResponseWriter: w, Status: http.StatusOK}
	if l.next.ServeHTTP(&s, r); l.wants(s.Status) {
		l.write(r, s.Status, "took", time.Since(start))
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
