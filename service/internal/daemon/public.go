package daemon

import (
	"context"
	"net"
	"net/http"

	"github.com/weir-go/weir/service/internal/h2inline"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/server/token"
)

// A publicServer serves callers over HTTP: a http.Server, or an h2inline.Server.
type publicServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// identify returns the function that APIs with sessions know clients by, or nil if every client is allowed.
func (d *Daemon) identify() func(secret string) *token.Session {
	if d.cfg.Tokens == "" {
		return nil
	}
	return d.guard.Identify
}

// handler returns the handler of callers over HTTP, of each server and transport: all that is in front of
// the APIs, and they.
func (d *Daemon) handler() http.Handler {
	return d.fleet.serve(httpserve.Leave(d.leaves.Around(d.rls.Handler(d.guard.Handler(d.api))), d.asksToLeave))
}

// newPublic returns the server of callers over HTTP. It has no ReadTimeout, which would
// end requests that wait: httpapi gives bodies a deadline. It also suspends the
// deadline of WriteTimeout while a request waits.
func (d *Daemon) newPublic() publicServer {
	srv := httpserve.New(d.handler(), d.log)
	srv.ReadHeaderTimeout, srv.WriteTimeout = d.cfg.ClientTimeout, d.cfg.ClientTimeout
	srv.ConnState = d.conns.ConnState
	srv.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		return d.conns.ConnContext(d.certs.Begin(ctx), nc)
	}
	srv.MaxHeaderBytes = MaxHeader(d.cfg.API.MaxKey)
	srv.DisableGeneralOptionsHandler = true        // that one reads a body without a deadline
	httpserve.SpeakHTTP2(srv, d.cfg.ClientTimeout) // d.conns ends TLS
	d.conns.Failed = func(from net.Addr, err error) { srv.ErrorLog.Printf("TLS handshake error from %v: %v", from, err) }
	if d.cfg.Transport == "inline" {
		return h2inline.New(srv, d.isFast(), d.api.Single)
	}
	return srv
}

// isFast returns a function that reports whether a request is answered without waiting. A store, a peer or
// an upstream may have to be waited for.
func (d *Daemon) isFast() func(*http.Request) bool {
	if d.blocking() {
		return func(*http.Request) bool { return false }
	}
	return func(r *http.Request) bool { return d.rls.Immediate(r) || d.api.Immediate(r) }
}
