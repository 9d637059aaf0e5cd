package grpclimit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/throttle"
)

// Defaults where ClientConfig leaves things open.
const (
	DefaultMaxWait = 30 * time.Second
	DefaultMaxHold = time.Hour
	DefaultQueue   = 1000
)

// ClientConfig is what a Client is made of. The zero value is usable: it heeds
// what the server asks for, and sends less to one that refuses most. It neither
// limits concurrency nor retries.
type ClientConfig struct {
	// Limiter, if not nil, is asked for one unit for each call: a limit on what is
	// in flight. It may be that of several Clients.
	Limiter weir.Limiter

	// NoPace turns off pacing by what the server asks for.
	NoPace bool
	// MaxWait bounds each wait that the server asks for: beyond it, a call fails at
	// once. If zero, DefaultMaxWait; if negative, the call's context alone bounds
	// it.
	MaxWait time.Duration
	// MaxHold bounds for how long the server is believed. If zero,
	// DefaultMaxHold.
	MaxHold time.Duration
	// Queue bounds the calls of one method that wait. If zero, DefaultQueue; if
	// negative, none waits.
	Queue int

	// Throttle sets up the adaptive throttle. To turn it off, set its MaxP to -1.
	Throttle throttle.Config

	// Retry, if not nil, sets up retries of unary calls. If nil, there are none:
	// gRPC has its own retries, which a service config turns on. Use one of the
	// two.
	Retry *throttle.RetryConfig

	// Criticality names the metadata that tells the server the Priority in the
	// call's context: "sheddable", "sheddable_plus", "critical" or
	// "critical_plus". If empty, none. What the caller has put there stays.
	Criticality string
}

// Validate returns an error that names the first field that makes no sense.
func (c ClientConfig) Validate() error {
	switch {
	case c.MaxHold < 0:
		return fmt.Errorf("grpclimit: MaxHold = %v: must be >= 0", c.MaxHold)
	case !validName(c.Criticality):
		return fmt.Errorf("grpclimit: Criticality = %q: must be a name of metadata", c.Criticality)
	}
	if c.Retry != nil {
		if _, err := throttle.NewRetrier(*c.Retry, nil); err != nil {
			return fmt.Errorf("grpclimit: Retry: %w", err)
		}
	}
	if _, err := throttle.New(c.Throttle); err != nil {
		return fmt.Errorf("grpclimit: Throttle: %w", err)
	}
	return nil
}

// A Client is the client's side of a limit: it sends no more calls than a server
// can take. Make one for each server, that is for each grpc.ClientConn or for
// those to the same target:
//
//	c, err := grpclimit.NewClient(grpclimit.ClientConfig{})
//	...
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream()))
//
// What it does, each part of which can be turned off:
//
//   - It paces: after a RESOURCE_EXHAUSTED or UNAVAILABLE with a RetryInfo or a
//     PushbackTrailer, calls of the same method wait until that is over, first
//     come, first served, and then go one after the other, until good answers
//     have shown that all may go. A call whose wait would be longer than MaxWait
//     fails at once, and so does one whose deadline would come before its end.
//   - It refuses at random what a server that refuses most would refuse anyway
//     (package throttle). UNAVAILABLE, which is also what becomes of a connection
//     that breaks, and DEADLINE_EXCEEDED are not accepted; what its caller
//     cancelled says nothing; all else is accepted: a quota (RESOURCE_EXHAUSTED),
//     too, and a stream when its first message comes, or the header that its
//     caller asks for.
//   - It holds to the Limiter. A stream holds its unit until it has ended as gRPC
//     defines it: RecvMsg has returned an error, its context is done, the
//     connection is closed, or a SendMsg or Header has failed.
//   - It retries unary calls, if there is Retry, within a budget: those of
//     which the server has said that they were refused, not just that they
//     failed (RESOURCE_EXHAUSTED or UNAVAILABLE with RetryInfo, pushback or
//     ReasonTrailer), unless it says that to wait is in vain.
//
// UNAVAILABLE is what the server says of itself: a good answer to a call of the
// method that was in flight shows that it is available, and ends the wait. What a
// server asks for is prolonged, by chance, by up to a tenth of it and a second at
// most: other clients were told the same.
//
// A call that the Client refuses itself has an error with the status that
// Interceptor has for it, UNAVAILABLE or RESOURCE_EXHAUSTED, and which is for
// errors.As a *weir.Rejection: OverRate or Throttled, with the wait; TooLate;
// QueueFull; or whatever the Limiter says.
//
// It remembers the waits of 1000 methods; calls of others go as if the
// server had said nothing. It starts no goroutine, and is safe for concurrent
// use.
type Client struct {
	cfg      ClientConfig
	throttle *throttle.Limiter // nil: none
	retrier  *throttle.Retrier // nil: none
	counts   outgoing.Counts

	holds atomic.Pointer[map[string]*outgoing.Hold] // of methods that were refused
	mu    sync.Mutex                                // of those who add one
}

// maxMethods bounds the methods of which a Client remembers something.
const maxMethods = 1000

// NewClient returns a Client, or the error of cfg.Validate.
func NewClient(cfg ClientConfig) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.MaxWait = cmp.Or(cfg.MaxWait, DefaultMaxWait)
	cfg.MaxHold = cmp.Or(cfg.MaxHold, DefaultMaxHold)
	cfg.Queue = max(cmp.Or(cfg.Queue, DefaultQueue), 0)
	cfg.Criticality = strings.ToLower(cfg.Criticality)
	c := &Client{cfg: cfg}
	var err error
	if cfg.Throttle.MaxP >= 0 {
		if c.throttle, err = throttle.New(cfg.Throttle); err != nil {
			return nil, err
		}
	}
	if cfg.Retry != nil && cfg.Retry.Attempts != 1 {
		c.retrier, err = throttle.NewRetrier(*cfg.Retry, c.retryable)
	}
	return c, err
}

// Unary returns the interceptor of unary calls.
func (c *Client) Unary() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx = c.mark(ctx)
		if c.retrier == nil {
			_, err := c.once(ctx, method, req, reply, cc, next, opts)
			return err
		}
		var last error // of the server
		err := c.retrier.Do(ctx, func(ctx context.Context) error {
			said, err := c.once(ctx, method, req, reply, cc, next, opts)
			if said == nil {
				return err
			}
			last = err
			return said
		})
		switch err.(type) {
		case *said:
			return last
		case *refusal: // of a retry, perhaps
			return cmp.Or(last, err)
		}
		if err != nil && err == ctx.Err() { // before the first attempt
			return refusalOf(unnamed, err, 0)
		}
		return err
	}
}

// once sends a call, unless it is kept back. It returns what the server said of
// when to come back, if it did, and the error of the call.
func (c *Client) once(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts []grpc.CallOption) (*said, error) {
	x, err := c.admit(ctx, method)
	if err != nil {
		return nil, err
	}
	defer x.abort()
	var trailer metadata.MD
	err = next(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
	return x.end(ctx, err, trailer), err
}

// mark returns the context of a call that tells the server its priority.
func (c *Client) mark(ctx context.Context) context.Context {
	name := c.cfg.Criticality
	if name == "" {
		return ctx
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md[name]) > 0 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, name, caller.LevelName(caller.Level(weir.ClassOf(ctx).Priority)))
}

// hold returns what keeps back the calls of a method, or nil.
func (c *Client) hold(method string) *outgoing.Hold {
	if known := c.holds.Load(); known != nil {
		return (*known)[method]
	}
	return nil
}

// addHold returns the hold of a method, and makes it if need be and there are not
// too many.
func (c *Client) addHold(method string) *outgoing.Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]*outgoing.Hold{}
	if known := c.holds.Load(); known != nil {
		if h := (*known)[method]; h != nil || len(*known) >= maxMethods {
			return h
		}
		all = maps.Clone(*known)
	}
	h := outgoing.NewHold(outgoing.HoldConfig{MaxWait: c.cfg.MaxWait, MaxHold: c.cfg.MaxHold, Queue: c.cfg.Queue})
	all[method] = h
	c.holds.Store(&all)
	return h
}

// Stats returns the state and the counts. They are read one after the other.
func (c *Client) Stats() ClientStats {
	s := c.counts.Stats()
	if known := c.holds.Load(); known != nil {
		for _, h := range *known {
			s.Waiting += h.Waiting()
		}
	}
	if c.throttle != nil {
		t := c.throttle.Stats()
		s.Throttle = &t
	}
	if c.retrier != nil {
		b := c.retrier.Stats()
		s.Budget = &b
	}
	if l, ok := c.cfg.Limiter.(interface{ Stats() inflight.Stats }); ok {
		g := l.Stats()
		s.Limiter = &g
	}
	return ClientStats(s)
}
