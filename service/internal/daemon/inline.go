package daemon

import (
	"context"
	"net"
	"net/http"

	"github.com/weir-go/weir/service/internal/http2serve"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/inline"
	"github.com/weir-go/weir/service/internal/server/httpapi"
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
	return http2serve.New(http2serve.Config{HTTP: srv, Facts: httpapi.FactsOf, Immediate: d.immediate(), Single: d.api.Single})
}

// immediate returns a function that returns the handler of a request that is answered without waiting, or nil. A store, a peer or
// an upstream may have to be waited for.
func (d *Daemon) immediate() func(*http.Request, inline.Facts) http.Handler {
	if d.shared != nil || d.tier != nil || d.fleet != nil {
		return func(*http.Request, inline.Facts) http.Handler { return nil }
	}
	var (
		keys  = logAnswers(d.log, d.cfg.LogAnswers, d.api)
		calls = http.HandlerFunc(d.rls.ServeUnary)
		// With all that can be in front of them.
		allKeys  = httpserve.Leave(d.aboutKeys(), d.asksToLeave)
		allCalls = httpserve.Leave(calls, d.asksToLeave)
	)
	return func(r *http.Request, f inline.Facts) http.Handler {
		switch {
		case d.api.Immediate(r, f):
			if d.guard.On() || d.asksToLeave(r) {
				return allKeys
			}
			return keys
		case d.rls.Immediate(r, f):
			if d.asksToLeave(r) {
				return allCalls
			}
			return calls
		}
		return nil
	}
}
