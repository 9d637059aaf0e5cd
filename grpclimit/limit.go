// Package grpclimit limits the calls that come in by gRPC, and those that go
// out.
//
// In front of handlers stands an [Interceptor]. With nothing to configure it
// keeps the work of each unary method at what it can bear, and refuses the rest:
//
//	i, err := grpclimit.New(grpclimit.Config{})
//	...
//	s := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream()))
//
// Or it limits how often each client may ask:
//
//	perClient, err := keyed.New[netip.Addr](gcra.Per(100, time.Minute, 20), keyed.Config{})
//	...
//	i, err := grpclimit.New(grpclimit.Config{
//		Rules:    []grpclimit.Rule{grpclimit.PerKey("per-client", perClient, grpclimit.Address())},
//		PerClass: grpclimit.Auto, // and the work, too
//	})
//
// Behind a connection stands a [Client], which heeds what the server says.
//
// # What a call holds
//
// Tokens of rules are spent; a unit of a limiter is held until the handler has
// returned or panicked. So a stream holds one unit for as long as it lasts,
// however many messages it has. How long that is says nothing about load, and a
// limit that learns from ends learns nothing from subscriptions: therefore
// streams have no limit unless there is a PerClass or a Limiter. PerClass may give
// methods whose streams last for hours a limit of their own, or none.
//
// How the handler ended tells the limiter about load: UNAVAILABLE and missed
// deadlines are signs of overload, other errors say nothing. RESOURCE_EXHAUSTED
// is about what one client may have: "your mailbox is full".
//
// gRPC has read the message of a unary call before it asks an Interceptor. So a
// refusal spares the work, not the reading: grpc.MaxRecvMsgSize bounds that.
//
// A call's deadline (grpc-timeout) is in its context. A limiter that knows that
// the call could not be done by then refuses it; who waits leaves with it.
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
	"github.com/weir-go/weir/internal/caller"
)

// A Request is what is known of a call before its handler runs.
type Request struct {
	Context context.Context // of the call: its metadata, peer and deadline
	Method  string          // such as "/package.Service/Method"
	Message any             // of a unary call; nil for a stream
}

// Config is what an Interceptor is made of. The zero value keeps the work of
// each unary method at what it can bear: see Auto. Streams it lets in, and counts
// as one class, "(streams)".
//
// The functions are called by several goroutines at once.
type Config struct {
	// Rules say how often each client, or all of them, may ask. They are asked
	// in order, and all must allow: if one, or the Limiter after them, refuses,
	// the others get their tokens back.
	Rules []Rule
	// Limiter, if not nil, is asked for one unit for each call, whatever its
	// class.
	Limiter weir.Limiter
	// PerClass returns the limiter of a class when its first call comes; nil is
	// no limit. A stream holds a unit from its start to its end. If PerClass is
	// nil, Auto for unary calls and no limit for streams; but if there are Rules
	// or a Limiter, no limit. It must be nil if Limiter is not.
	PerClass func(class string) weir.Limiter

	// Class returns the class of a call: those of one share the limiter that
	// PerClass returns, and are counted together. If nil, its method where that
	// decides about the limiter, and else the same for all.
	Class func(r Request) string
	// MaxClasses bounds the classes; what comes beyond shares one. If zero, 100.
	MaxClasses int
	// Units is how many units of its limiter a call takes, >= 0. If nil, one.
	Units func(r Request) int

	// Exempt are the methods that are let in unasked. One that ends with a slash
	// stands for all of the service: "/package.Service/". If nil, DefaultExempt;
	// empty for none.
	Exempt []string
	// Criticality names the metadata that says who is shed first: "sheddable",
	// "sheddable_plus", "critical" or "critical_plus". If empty, none. From a
	// peer that is not in Trusted, the last counts as critical.
	Criticality string
	// Trusted are the networks of peers that may say critical_plus.
	Trusted []netip.Prefix

	// Shadow lets every call in, at once, and counts what would have been
	// refused. Nobody waits in a queue, so what would have waited counts as refused
	// by a limiter, too: a limit in Shadow seems to refuse more than it would.
	// Rules count exactly.
	Shadow bool

	// RetryJitter adds up to so much to each wait that a refused client is told,
	// at random, so that those who were refused together do not come back
	// together. If zero, nothing: gRPC clients come back just when they are told.
	RetryJitter time.Duration
}

// DefaultExempt are the services of probes and tools.
var DefaultExempt = []string{
	"/grpc.health.v1.Health/",
	"/grpc.reflection.v1.ServerReflection/",
	"/grpc.reflection.v1alpha.ServerReflection/",
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	if err := c.door().Validate(); err != nil {
		return fmt.Errorf("grpclimit: %w", err)
	}
	switch {
	case c.Limiter != nil && c.PerClass != nil:
		return fmt.Errorf("grpclimit: PerClass: must be nil, since Limiter is not")
	case c.RetryJitter < 0:
		return fmt.Errorf("grpclimit: RetryJitter = %v: must be >= 0", c.RetryJitter)
	case !validName(c.Criticality):
		return fmt.Errorf("grpclimit: Criticality = %q: must be a name of metadata", c.Criticality)
	}
	if i := caller.Networks(c.Trusted).Invalid(); i >= 0 {
		return fmt.Errorf("grpclimit: Trusted[%d]: is no network", i)
	}
	for i, method := range c.Exempt {
		if method == "" || method[0] != '/' {
			return fmt.Errorf("grpclimit: Exempt[%d] = %q: must begin with a slash", i, method)
		}
	}
	return nil
}

func (c Config) door() admission.Config[Request] {
	d := admission.Config[Request]{
		Limiter:    c.PerClass,
		MaxClasses: c.MaxClasses,
		Units:      c.Units,
		Shadow:     c.Shadow,
	}
	for _, r := range c.Rules {
		d.Rules = append(d.Rules, r.rule)
	}
	if c.Limiter != nil {
		d.Limiter = func(string) weir.Limiter { return c.Limiter }
	} else if c.auto() {
		d.Limiter = func(class string) weir.Limiter {
			if class == streams {
				return nil
			}
			return Auto(class)
		}
	}
	return d
}

// auto reports whether nothing says what the limits are.
func (c Config) auto() bool { return c.PerClass == nil && c.Limiter == nil && len(c.Rules) == 0 }

// streams is the class of streams where nothing says what the limits are.
const streams = "(streams)"

// Auto returns a limiter that finds by itself how many calls may be in
// flight (limit.Auto): what Config.PerClass does unless told otherwise. Three
// times as many may wait, first come, first served, so that a wait is about three
// times as long as the work, whatever that takes; or as many as will be done in
// 100 ms, if that is more. Nobody waits for more than three seconds. All others are
// refused at once.
func Auto(class string) weir.Limiter { return admission.NewAuto(class) }

// An Interceptor lets calls in to handlers, as its limits allow. All servers
// that it is given to share them. It is safe for concurrent use.
type Interceptor struct {
	cfg      Config
	door     *admission.Door[Request]
	auto     bool
	classify bool
	exempt   methods
	trusted  caller.Networks
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
		auto:     cfg.auto(),
		classify: cfg.Class == nil && (cfg.PerClass != nil || cfg.auto()),
		trusted:  caller.Trust(cfg.Trusted),
	}
	for _, r := range cfg.Rules {
		i.quotas = append(i.quotas, newQuota(r.rule.Name))
	}
	if cfg.Exempt == nil {
		i.exempt = newMethods(DefaultExempt)
	} else {
		i.exempt = newMethods(cfg.Exempt)
	}
	i.visits.New = func() any { return new(visit) }
	return i, nil
}

// Unary returns the interceptor of unary calls. It belongs behind interceptors
// that log and measure, which see its refusals: errors that are, for errors.As,
// a *weir.Rejection or what the context said.
func (i *Interceptor) Unary() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if i.exempt.has(info.FullMethod) {
			i.door.Exempt()
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

// Stream returns the interceptor of streams. See Unary for where it belongs.
func (i *Interceptor) Stream() grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if i.exempt.has(info.FullMethod) {
			i.door.Exempt()
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

// Stats is what an Interceptor has done since New.
type Stats = admission.Stats

// Stats returns the counts. They are read one after the other.
func (i *Interceptor) Stats() Stats { return i.door.Stats() }
