// Package weirapi is the API of weir serve over gRPC, weir.v1: see api/weir/v1/weir.proto. It has the semantics of the API
// over HTTP.
//
//	api := weirapi.New(srv, weirapi.Config{Identify: guard.Identify})
//	api.Register(grpcServer)
//
// # Clients that disconnect
//
// A request is not granted if its client cancels the call, or loses the connection, while the request waits. If an answer
// is lost on the network, the server cannot know: the tokens are spent, and the lease is held until it expires.
package weirapi

import (
	"cmp"
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// DefaultMaxKey is the default of Config.MaxKey.
const DefaultMaxKey = 1 << 10

// Config configures an API. The zero value authorizes every request, and ignores limits that requests set for themselves.
type Config struct {
	// MaxLimit and MaxQueue bound max_requests and max_requests_in_queue. They must be those of the server.Config. If
	// zero, requests with these fields are rejected.
	MaxLimit, MaxQueue int
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey.
	MaxKey int
	// Limit returns the bound of the requests of a kind that are in progress. If it is nil, they are not bounded.
	Limit func(connlimit.Kind) *connlimit.Limit
	// Identify returns the session of the client of a call, or the error that ends the call. If Identify or the session is
	// nil, every access is allowed.
	Identify func(context.Context) (*token.Session, error)
}

// An API is the gRPC service. It is safe for concurrent use.
type API struct {
	weirv1.UnimplementedWeirServiceServer
	cfg     Config
	decider decider.Decider
}

// New returns an API.
func New(d decider.Decider, cfg Config) *API {
	cfg.MaxKey = cmp.Or(cfg.MaxKey, DefaultMaxKey)
	return &API{cfg: cfg, decider: d}
}

// Register adds the service to a gRPC server.
func (a *API) Register(s grpc.ServiceRegistrar) { weirv1.RegisterWeirServiceServer(s, a) }

// Allowed returns the decision that an answer has. Decided is false if it has none, such as an answer that tells of a wait.
func Allowed(answer any) (allowed, decided bool) {
	switch a := answer.(type) {
	case interface{ GetDecision() *weirv1.Decision }:
		d := a.GetDecision()
		return d.GetOk(), d != nil
	case interface {
		GetDecision() *weirv1.LeaseDecision
	}:
		d := a.GetDecision()
		return d.GetLease() != nil, d != nil
	case *weirv1.BatchResponse:
		return a.GetOk(), true
	}
	return false, false
}

// Errors of requests.
var (
	errBusy        = status.Error(codes.Unavailable, "too many requests at once from your address, or from all; try again")
	errUnavailable = status.Error(codes.Unavailable, "no decision is available; try again")
	errNoRate      = status.Error(codes.NotFound, decider.ErrNoRate.Error()+": AcquireLease")
	errNoGrant     = status.Error(codes.NotFound, decider.ErrNoGrant.Error())
	errNoLease     = status.Error(codes.NotFound, decider.ErrNoLease.Error())
	errNoLeasing   = status.Error(codes.NotFound, decider.ErrNoLeasing.Error())
)

// bad returns the error of an invalid request.
func bad(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// failed returns the error for one of the Decider.
func failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, decider.ErrNoRate):
		return errNoRate
	case errors.Is(err, decider.ErrNoGrant):
		return errNoGrant
	case errors.Is(err, decider.ErrNoLease):
		return errNoLease
	case errors.Is(err, decider.ErrNoLeasing):
		return errNoLeasing
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	return errUnavailable
}

// session returns the session of the client of a call; nil if it needs none.
func (a *API) session(ctx context.Context) (*token.Session, error) {
	if a.cfg.Identify == nil {
		return nil, nil
	}
	return a.cfg.Identify(ctx)
}

// parse returns a key that the session may use.
func (a *API) parse(s *token.Session, action token.Action, text string) (key string, err error) {
	if key, err = decider.ParseKey(text, a.cfg.MaxKey); err != nil {
		return "", bad("%v", err)
	}
	if s != nil {
		if err := s.Authorize(action, key); err != nil {
			return "", status.Error(codes.PermissionDenied, err.Error())
		}
	}
	return key, nil
}

// admit parses the key of a call, and takes a place for the call. The caller must call leave.
func (a *API) admit(ctx context.Context, action token.Action, text string, kind connlimit.Kind) (key string, leave func(), err error) {
	s, err := a.session(ctx)
	if err != nil {
		return "", nil, err
	}
	if key, err = a.parse(s, action, text); err != nil {
		return "", nil, err
	}
	leave, err = a.enter(ctx, kind)
	return key, leave, err
}

// enter takes a place for a call. The caller must call leave.
func (a *API) enter(ctx context.Context, kind connlimit.Kind) (leave func(), err error) {
	if a.cfg.Limit == nil {
		return func() {}, nil
	}
	limit, client := a.cfg.Limit(kind), connlimit.ClientOf(ctx)
	if !limit.Enter(client, 1) {
		return nil, errBusy
	}
	return func() { limit.Leave(client, 1) }, nil
}

// cost returns the number of tokens or units that a request asks for.
func cost(n *int32, least int32) (int, error) {
	if n == nil {
		return 1, nil
	}
	if *n < least {
		return 0, bad("n = %d: must be >= %d", *n, least)
	}
	return int(*n), nil
}

// own returns a limit that a request sets for itself.
func own(name string, value *int32, least, most int) (int, error) {
	switch {
	case value == nil:
		return 0, nil
	case most == 0:
		return 0, status.Error(codes.PermissionDenied, name+" is disabled")
	case int(*value) < least || int(*value) > most:
		return 0, bad("%s = %d: must be from %d to %d", name, *value, least, most)
	}
	return int(*value), nil
}
