package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/rate"
	"github.com/weir-go/weir/service/internal/otlp"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
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

// answered returns a function that logs and traces answers; nil if neither is wanted. The times of decisions become exemplars.
func (c *Config) answered(exemplars *metric.Exemplars) func(r *http.Request, status int, came time.Time, took time.Duration) {
	logs := logAnswers(c.Log, c.LogAnswers)
	if !c.Export.Traces() {
		return logs
	}
	return func(r *http.Request, status int, came time.Time, took time.Duration) {
		if id := c.Export.Answered(r, httpapi.Route(r), status, came); took > 0 {
			exemplars.Note(took, id)
		}
		if logs != nil {
			logs(r, status, came, took)
		}
	}
}

// logAnswers returns a function that logs answers of some classes of status, or nil if there is no class.
func logAnswers(log *slog.Logger, classes [6]bool) func(r *http.Request, status int, came time.Time, took time.Duration) {
	if classes == ([len(classes)]bool{}) {
		return nil
	}
	lines := rate.NewLimiter(maxLogged, maxLogged)
	return func(r *http.Request, status int, came time.Time, _ time.Duration) {
		if class := status / 100; class < len(classes) && classes[class] && lines.Allow() {
			log.Info("answer", "status", status, "method", r.Method, "path", r.URL.EscapedPath(), "from", r.RemoteAddr, "took", time.Since(came))
		}
	}
}

// called returns a function that traces calls of ShouldRateLimit; nil if traces are not exported.
func (c *Config) called() func(ctx context.Context, header http.Header, came time.Time, err error, over bool) {
	if !c.Export.Traces() {
		return nil
	}
	return func(ctx context.Context, header http.Header, came time.Time, err error, over bool) {
		c.Export.Called(ctx, otlp.Call{Method: rls.RateLimitService_ShouldRateLimit_FullMethodName, Header: header, Came: came, Err: err, Allowed: !over, Decided: true})
	}
}
