package peer

import (
	"context"
	"net/http"
)

// A Handler serves a decider.Decider to the Clients of other instances, at Path. It is safe for
// concurrent use.
type Handler struct{ cfg HandlerConfig }

// NewHandler returns a Handler, or an error about the HandlerConfig.
func NewHandler(cfg HandlerConfig) (*Handler, error) { return &Handler{cfg: cfg}, nil }

// ServeHTTP upgrades a connection, and serves it until it ends.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

// Leave asks the Clients to send no more requests, and refuses new connections. Requests that come
// all the same are served.
func (h *Handler) Leave() {}

// Shutdown calls Leave, and waits until all requests are answered and the Clients have closed their
// connections. If ctx ends before, it closes the connections and returns the error of ctx.
// http.Server.Shutdown does not wait for them.
func (h *Handler) Shutdown(ctx context.Context) error { return nil }

// Stats returns the counts.
func (h *Handler) Stats() HandlerStats { return HandlerStats{} }
