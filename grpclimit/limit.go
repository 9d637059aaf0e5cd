// Package grpclimit protects gRPC servers from overload: it limits how many calls
// are in flight, and how often each client may call. Its [Client] keeps clients
// within the limits of their servers.
//
// With [Auto], an [Interceptor] finds the concurrency that each unary method can bear,
// and refuses the excess early:
//
//	i, err := grpclimit.New(grpclimit.Config{PerClass: grpclimit.Auto})
//	...
//	s := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream()))
//
// Rules limit each client's rate:
//
//	perClient, err := keyed.New[netip.Addr](rate.Per(100, time.Minute, 20), keyed.Config{})
//	...
//	i, err := grpclimit.New(grpclimit.Config{
//		Rules:    []grpclimit.Rule{grpclimit.PerKey("per-client", perClient, grpclimit.Address())},
//		PerClass: grpclimit.Auto, // limit the concurrency, too
//	})
//
// # What a call holds
//
// A call spends tokens of rules, and holds a unit of its concurrency limit, and of each rule
// of calls in flight, until the handler returns or panics. A stream holds one unit for its whole life,
// however many messages it has. Its duration says nothing about load, so a limit
// that learns from durations cannot learn from subscriptions. Therefore streams are
// one class, [Streams], which Auto does not limit. Config.PerClass may limit it, and
// Config.Class may tell streams apart.
//
// The limit takes UNAVAILABLE and missed deadlines as signs of overload, and
// ignores other errors. RESOURCE_EXHAUSTED is about one client's quota.
//
// gRPC reads the message of a unary call before it asks an Interceptor. So a
// refusal saves the work, but not the reading: grpc.MaxRecvMsgSize bounds that.
//
// A call's deadline (grpc-timeout) is in its context. A limiter refuses a call
// that cannot be served by then, and a call leaves the queue at its deadline.
package grpclimit

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/recording"
)

// A Request describes a call before its handler runs.
type Request struct {
	Context context.Context // of the call: its metadata, peer and deadline
	Method  string          // such as "/package.Service/Method"
	Message any             // of a unary call; nil for a stream
}

// Config configures an Interceptor. The zero value limits nothing. Several goroutines
// call the functions at once.
type Config struct {
	// Rules are limits of clients: of their rates, and of their calls in flight. They are asked in
	// order. If one of them, or the concurrency limit after them, refuses a call, the others get
	// back what they gave.
	Rules []Rule
	// Limiter is a concurrency limit for all classes. Each call takes a unit. The
	// limiter is told the route of each call (weir.Class), which is its class, or its
	// method without one. If nil, there is none.
	Limiter weir.Limiter
	// PerClass returns the concurrency limit of a class when its first call comes,
	// for example Auto. A stream holds a unit from its start to its end. If PerClass
	// is nil or returns nil, the class has no separate limit. It must be nil if
	// Limiter is not.
	PerClass func(class string) weir.Limiter

	// Class returns the class of a call. Calls of one class share the limit that
	// PerClass returns, and are counted together. If nil, it is the method of a
	// unary call, and Streams for streams, if PerClass is set, or else "". Classes
	// beyond the first 1000 share one.
	Class func(r Request) string
	// Units returns how many units of its limit a call takes, >= 0. If nil, one.
	Units func(r Request) int

	// Exempt holds methods that are admitted without a decision. A name that ends
	// with a slash stands for the whole service: "/package.Service/". If nil,
	// DefaultExempt; if empty, none.
	Exempt []string
	// Criticality names the metadata with the call's priority: "sheddable",
	// "sheddable_plus", "critical" or "critical_plus". Under overload the least
	// important calls are refused first. If empty, none. From a peer that is not
	// Trusted, critical_plus counts as critical.
	Criticality string
	// Trusted holds the networks of peers that may send critical_plus. A network with 127.0.0.1 or ::1
	// contains the peers at Unix sockets, too.
	Trusted []netip.Prefix

	// Shadow admits every call, without a wait, and counts the ones that it would
	// have refused. A call that would have waited in a queue counts as refused by
	// the limiter. Rules count exactly.
	Shadow bool

	// Recorder, if not nil, receives a record of each call that is not Exempt, with
	// its class. A call that is admitted is added when it ends. Inflight counts the
	// units of the class. The Limiter needs no Recorder then.
	Recorder *recording.Recorder

	// RetryJitter is the longest random addition to the wait that a refused client
	// is told, so that clients that were refused together do not come back
	// together. If zero, none: gRPC clients come back exactly when they are told.
	RetryJitter time.Duration
}

// DefaultExempt holds the services of probes and tools.
var DefaultExempt = []string{
	"/grpc.health.v1.Health/",
	"/grpc.reflection.v1.ServerReflection/",
	"/grpc.reflection.v1alpha.ServerReflection/",
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if err := c.door().Validate(); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	if !validName(c.Criticality) {
		return fmt.Errorf("grpclimit: Criticality = %q: must be a name of metadata", c.Criticality)
	}
	return nil
}

// door returns the part of the configuration that decides.
func (c Config) door() admission.Config[Request] {
	d := admission.Config[Request]{
		Limiter: c.Limiter, PerClass: c.PerClass, Units: c.Units,
		Exempt: c.Exempt, Trusted: c.Trusted, RetryJitter: c.RetryJitter, Shadow: c.Shadow, Recorder: c.Recorder,
	}
	for _, r := range c.Rules {
		d.Rules = append(d.Rules, r.rule)
	}
	if d.Exempt == nil {
		d.Exempt = DefaultExempt
	}
	return d
}

// Streams is the class of streams if Config.Class is nil.
const Streams = "(streams)"

// Auto is a Config.PerClass. For the class Streams it returns nil, no limit. For
// others it returns a limiter with the defaults of package inflight: it finds by itself
// how many calls may be in flight, and up to a thousand wait for up to half a second. It
// learns how long clients wait: a call that would end after its client has left is
// refused.
func Auto(class string) weir.Limiter {
	if class == Streams {
		return nil
	}
	return admission.NewAuto(class)
}

// An Interceptor limits the calls to handlers. All servers that use it share its
// limits. It is safe for concurrent use.
type Interceptor struct {
	cfg      Config
	door     *admission.Door[Request]
	classify bool      // by method
	quotas   []*quota  // of each rule
	visits   sync.Pool // of *visit
}

// New returns an Interceptor, or the error of cfg.Validate.
func New(cfg Config) (*Interceptor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Criticality = strings.ToLower(cfg.Criticality)
	i := &Interceptor{
		cfg:      cfg,
		door:     admission.New(cfg.door()),
		classify: cfg.Class == nil && cfg.PerClass != nil,
	}
	for _, r := range cfg.Rules {
		i.quotas = append(i.quotas, &quota{rule: r.rule.Name})
	}
	i.visits.New = func() any { return new(visit) }
	return i, nil
}

// Unary returns the interceptor of unary calls. It belongs behind interceptors
// that log and measure, so that they see its refusals. For errors.As, these are a
// *weir.Rejection or the error of the context.
func (i *Interceptor) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if i.door.Exempt(info.FullMethod) {
			return next(ctx, req)
		}
		v, ctx, err := i.enter(Request{ctx, info.FullMethod, req}, false)
		if err != nil {
			return nil, err
		}
		defer v.leave()
		resp, err := next(ctx, req)
		v.outcome = outcomeOf(ctx, err)
		return resp, err
	}
}

// Stream returns the interceptor of streams. See Unary for its place.
func (i *Interceptor) Stream() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if i.door.Exempt(info.FullMethod) {
			return next(srv, ss)
		}
		v, ctx, err := i.enter(Request{Context: ss.Context(), Method: info.FullMethod}, true)
		if err != nil {
			return err
		}
		defer v.leave()
		if ctx != ss.Context() {
			ss = &serverStream{ss, ctx}
		}
		err = next(srv, ss)
		v.outcome = outcomeOf(ctx, err)
		return err
	}
}

// serverStream is a stream with another context.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *serverStream) Context() context.Context { return s.ctx }
