// Package grpcapi is Envoy's rate-limit service, envoy.service.ratelimit.v3, over gRPC and,
// as JSON, over HTTP. Descriptors are keys: see package descriptor.
//
//	api, err := grpcapi.New(srv, grpcapi.Config{})
//	...
//	s := api.NewServer()
//	err = s.Serve(ln)
//
// Answers are as those of envoyproxy/ratelimit. Errors have its texts.
package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Config configures an API. The fields with a help text are flags. envoyproxy/ratelimit
// has the variables without WEIR_.
type Config struct {
	// Shadow and Quota are modes for all rules: the overall code is OK, or it is OVER_LIMIT
	// only if the code of every descriptor is.
	Shadow bool `name:"rls-shadow" env:"WEIR_RLS_SHADOW,SHADOW_MODE" help:"Rate-limit service: answer OK for every request; only the statuses of descriptors have OVER_LIMIT."`
	Quota  bool `name:"rls-quota" env:"WEIR_RLS_QUOTA,QUOTA_MODE" help:"Rate-limit service: as quota_mode for every rule: deny a request only if all its descriptors are beyond their limits."`
	// All takes tokens of all descriptors of a request, or of none.
	All bool `name:"rls-all" help:"Rate-limit service: take tokens for all descriptors of a request, or for none. Without it, each descriptor counts on its own."`
	// Headers adds response headers with these names.
	Headers         bool   `name:"rls-headers" env:"WEIR_RLS_HEADERS,LIMIT_RESPONSE_HEADERS_ENABLED" help:"Rate-limit service: have Envoy add header fields to responses, with the limit that is closest to being exceeded."`
	LimitHeader     string `name:"rls-limit-header" default:"RateLimit-Limit" env:"WEIR_RLS_LIMIT_HEADER,LIMIT_LIMIT_HEADER" placeholder:"NAME" help:"Its field with the limit (${default})."`
	RemainingHeader string `name:"rls-remaining-header" default:"RateLimit-Remaining" env:"WEIR_RLS_REMAINING_HEADER,LIMIT_REMAINING_HEADER" placeholder:"NAME" help:"Its field with the remaining requests (${default})."`
	ResetHeader     string `name:"rls-reset-header" default:"RateLimit-Reset" env:"WEIR_RLS_RESET_HEADER,LIMIT_RESET_HEADER" placeholder:"NAME" help:"Its field with the seconds until the limit resets (${default})."`
	// Metadata adds dynamic metadata to answers.
	Metadata bool `name:"rls-metadata" env:"WEIR_RLS_METADATA,RESPONSE_DYNAMIC_METADATA" help:"Rate-limit service: answer with the request, and the metadata of the rules that allow it, as dynamic metadata."`
	// NearLimit is the share of a limit from which requests count as near the limit. If zero,
	// 0.8.
	NearLimit float64 `name:"rls-near-limit" default:"0.8" env:"WEIR_RLS_NEAR_LIMIT,NEAR_LIMIT_RATIO" placeholder:"SHARE" help:"Rate-limit service: the share of a limit beyond which requests count as near the limit, in metrics (${default})."`

	// BodyTimeout bounds the time for reading a request behind Handler, and, at a server of NewServer, the time of a unary
	// call, and of a stream until its first message. If zero, they are not bounded.
	BodyTimeout time.Duration
	// MaxConnectionAge is how long a connection of a server of NewServer lives, give or take a
	// tenth. Then the client is asked to leave, and calls in progress finish. If zero, for ever.
	MaxConnectionAge time.Duration
	// Bodies bounds the bytes of JSON, and of messages behind Handler of more than 4 KiB, that
	// are being read or answered, by client. If nil, they are not bounded.
	Bodies *connlimit.Limit
	// Identify returns the session of a client with a secret. Clients that are not known get
	// UNAUTHENTICATED before their message is decoded. If nil, all requests are allowed.
	Identify func(secret string) *token.Session
	// Answered is called after each call of ShouldRateLimit, with the header of a call through Handler, or nil; then the
	// context has its metadata. If Answered is nil, it is not called.
	Answered func(ctx context.Context, header http.Header, came time.Time, err error, over bool)
}

// Validate returns an error that names the first invalid field.
func (c *Config) Validate() error {
	if !(c.NearLimit >= 0 && c.NearLimit <= 1) {
		return fmt.Errorf("grpcapi: NearLimit = %v: must be from 0 to 1", c.NearLimit)
	}
	return nil
}

// maxMessage bounds a request, in bytes.
const maxMessage = 256 << 10

// Errors of requests, with the texts of envoyproxy/ratelimit.
var (
	errDomain      = status.Error(codes.Unknown, "rate limit domain must not be empty")
	errDescriptors = status.Error(codes.Unknown, "rate limit descriptor list must not be empty")
	errUnknown     = status.Error(codes.Unauthenticated, token.ErrUnknown.Error())
	errBusy        = status.Error(codes.Unavailable, "too many requests are in progress; try again")
	errUnavailable = status.Error(codes.Unavailable, "no decision is available; try again")
)

// An API serves the rate-limit service. It is safe for concurrent use.
type API struct {
	cfg     Config
	decider decider.Decider
	health  *health.Server
	web     *grpc.Server // behind ServeHTTP
	origins http.CrossOriginProtection
	calls   sync.Pool // of *call
	stats   stats
	answers [codes.Unauthenticated + 1]atomic.Uint64 // by code
	over    atomic.Uint64                            // OVER_LIMIT
}

// New returns an API, or an error about the Config.
func New(d decider.Decider, cfg Config) (*API, error) {
	cfg.NearLimit = cmp.Or(cfg.NearLimit, 0.8)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	a := &API{cfg: cfg, decider: d, health: newHealth()}
	a.stats.near = cfg.NearLimit
	a.calls.New = func() any { return &call{api: a} }
	a.web = a.NewServer()
	return a, nil
}

// Identify returns the session of the client of a call, by its metadata; nil if none is
// needed. The error of a client that is not known is a status, UNAUTHENTICATED.
func (a *API) Identify(ctx context.Context) (*token.Session, error) {
	if a.cfg.Identify == nil {
		return nil, nil
	}
	return a.identify(strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ","))
}

// identify returns the session of a client with an Authorization header; nil if none is
// needed.
func (a *API) identify(authorization string) (*token.Session, error) {
	if a.cfg.Identify == nil {
		return nil, nil
	}
	secret, _ := token.Bearer(authorization)
	s := a.cfg.Identify(secret)
	if s.Count(); !s.Known() {
		return nil, errUnknown
	}
	return s, nil
}

func (a *API) identifyHeader(authorization []string) (*token.Session, error) {
	if len(authorization) == 0 {
		return a.identify("")
	}
	return a.identify(authorization[0])
}

// Immediate reports whether Handler answers a request without waiting, if the Decider does not
// wait for others.
func (a *API) Immediate(r *http.Request) bool {
	return r.URL.Path == unaryPath && isGRPC(r)
}

// answer decides a request that was decoded, for the client of a session, if there is one.
func (a *API) answer(ctx context.Context, c *call, s *token.Session) error {
	switch {
	case len(c.domain) == 0:
		return errDomain
	case len(c.requests) == 0:
		return errDescriptors
	}
	if s != nil {
		for i := range c.requests {
			if err := s.Authorize(token.Decide, c.requests[i].Key); err != nil {
				return status.Error(codes.PermissionDenied, err.Error())
			}
		}
	}
	_, err := a.decider.Descriptors(ctx, c.requests, a.cfg.All, c.verdicts)
	switch {
	case err == nil:
		c.render()
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, decider.ErrQuota), errors.Is(err, decider.ErrOwnQuota), errors.Is(err, decider.ErrNoRate):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return errUnavailable
}
