package daemon

import (
	"context"
	"net"
	"net/http"

	"github.com/weir-go/weir/service/internal/http2serve"
)

// A publicServer serves callers.
type publicServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// serveInline returns a server of callers that answers requests that do not wait on the goroutine of their
// connection, and others about keys on a separate goroutine each, if that is configured.
func (d *Daemon) serveInline(srv *http.Server) publicServer {
	if d.cfg.Transport != "inline" {
		return srv
	}
	return http2serve.New(http2serve.Config{HTTP: srv, Immediate: d.immediate, Single: d.api.Single})
}

// immediate reports whether a request is answered without waiting. A store, a peer or an upstream may have to be
// waited for.
func (d *Daemon) immediate(r *http.Request) bool {
	return d.shared == nil && d.tier == nil && d.fleet == nil && (d.api.Immediate(r) || d.rls.Immediate(r))
}
