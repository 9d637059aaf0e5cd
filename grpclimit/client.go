package grpclimit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/internal/priority"
	"github.com/weir-go/weir/throttle"
)

// ClientConfig sets up a Client. The zero value is usable: the Client delays calls
// when the server asks for it, and sends fewer to a server that refuses most of
// them. It neither limits concurrency nor retries.
type ClientConfig struct {
	// Limiter, if not nil, limits the calls in flight: each call takes one unit.
	// Several Clients may share it.
	Limiter weir.Limiter

	// MaxWait bounds each wait that the server asks for. A call that would wait
	// longer fails at once. If zero, 30 seconds; if negative, only the context of
	// the call bounds it.
	MaxWait time.Duration
	// MaxHold bounds the time for which the server can keep calls of a method
	// waiting; then one call is sent to ask again. If zero, one minute; if
	// negative, the Client does not pace.
	MaxHold time.Duration
	// Queue bounds the number of calls per method that wait. If zero, 1000; if
	// negative, no call waits.
	Queue int

	// Throttle sets up the adaptive throttle. To turn it off, set its MaxP to -1.
	Throttle throttle.Config

	// Retry, if not nil, sets up retries of unary calls. If nil, there are none:
	// gRPC has its own retries, which a service config turns on. Use one of the
	// two.
	Retry *throttle.RetryConfig

	// Criticality names the metadata key that tells the server the Priority in
	// the context of the call: "sheddable", "sheddable_plus", "critical" or
	// "critical_plus". If empty, none. A value that the caller has set stays.
	Criticality string
}

// A Client keeps a gRPC client from sending more calls than a server can take. Make
// one per server, that is per grpc.ClientConn, or per target:
//
//	c, err := grpclimit.NewClient(grpclimit.ClientConfig{})
//	...
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream()))
//
// It does four things, each of which can be turned off:
//
//   - It paces: after a RESOURCE_EXHAUSTED or UNAVAILABLE with a RetryInfo or a
//     PushbackTrailer, calls of the same method wait for that time, first come,
//     first served. Then they go one after the other, until good answers show
//     that the server has recovered. A call that would wait longer than MaxWait
//     or until after its deadline fails at once.
//   - It throttles: it refuses at random what a server that refuses most calls
//     would refuse anyway (package throttle). UNAVAILABLE and DEADLINE_EXCEEDED count
//     as refused. A call that its caller cancelled does not count. All other results
//     count as accepted, including RESOURCE_EXHAUSTED; a stream is accepted when its
//     first message or its header is received.
//   - It limits the calls in flight, if there is a Limiter. A stream holds its unit
//     until RecvMsg has returned an error, its context is done, the connection is
//     closed, or SendMsg or Header has failed.
//   - It retries unary calls, if there is a Retry, within a budget: calls that the
//     server has refused (RESOURCE_EXHAUSTED or UNAVAILABLE with RetryInfo, pushback
//     or ReasonTrailer), unless the server says that no retry can succeed.
//
// After UNAVAILABLE, a good answer to a call of the method that was in flight shows
// that the server is available, and ends the wait. Each wait is prolonged at random
// by up to a tenth and a second at most, because other clients were told the same.
//
// A call that the Client refuses itself fails with the status that Interceptor uses,
// UNAVAILABLE or RESOURCE_EXHAUSTED. Its error is for errors.As a *weir.Rejection:
// OverRate or Throttled, with the wait; TooLate; QueueFull; or the rejection of the
// Limiter.
//
// A Client keeps the waits of up to 1000 methods; calls of other methods are not
// paced. It starts no goroutine, and is safe for concurrent use.
type Client struct {
	cfg      ClientConfig
	pacing   outgoing.Config
	path     outgoing.Path
	throttle *throttle.Limiter // nil: none
	retrier  *throttle.Retrier // nil: none
	counts   clientCounts

	mu     sync.RWMutex               // guards queues
	queues map[string]*outgoing.Queue // by method, after its first refusal
}

// maxMethods bounds the methods that a Client paces.
const maxMethods = 1000

// NewClient returns a Client, or an error that names the first field of cfg that
// makes no sense.
func NewClient(cfg ClientConfig) (*Client, error) {
	if !validName(cfg.Criticality) {
		return nil, fmt.Errorf("grpclimit: Criticality = %q: must be a name of metadata", cfg.Criticality)
	}
	cfg.Criticality = strings.ToLower(cfg.Criticality)
	c := &Client{cfg: cfg, queues: map[string]*outgoing.Queue{}}
	c.pacing = outgoing.Config{MaxWait: cfg.MaxWait, MaxHold: cfg.MaxHold, Queue: cfg.Queue}.WithDefaults()
	var err error
	if c.throttle, err = throttle.New(cfg.Throttle); err != nil {
		return nil, fmt.Errorf("grpclimit: Throttle: %w", err)
	}
	c.path = outgoing.Path{Queue: c.queue, Throttle: c.throttle, Limiter: cfg.Limiter}
	if cfg.Throttle.MaxP < 0 {
		c.throttle, c.path.Throttle = nil, nil
	}
	if cfg.Retry != nil {
		if c.retrier, err = throttle.NewRetrier(*cfg.Retry, c.retryable); err != nil {
			return nil, fmt.Errorf("grpclimit: Retry: %w", err)
		}
	}
	return c, nil
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
			advice, err := c.once(ctx, method, req, reply, cc, next, opts)
			if advice == nil {
				return err
			}
			last = err
			return advice
		})
		switch err.(type) {
		case *retryAdvice:
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

// once sends a call unless the Client refuses it. It returns the error of the call
// and, if the server refused it, the server's advice about a retry.
func (c *Client) once(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts []grpc.CallOption) (*retryAdvice, error) {
	x := exchange{client: c, method: method}
	if err := x.admit(ctx); err != nil {
		return nil, err
	}
	defer x.abort()
	var trailer metadata.MD
	err := next(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
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
	return metadata.AppendToOutgoingContext(ctx, name, priority.Name(weir.ClassOf(ctx).Priority))
}

// queue returns the queue of a method, nil if its calls need not wait.
func (c *Client) queue(method string) *outgoing.Queue {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.queues[method]
}

// addQueue returns the queue of a method, and makes it if there are not too many.
func (c *Client) addQueue(method string) *outgoing.Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[method]
	if q == nil && len(c.queues) < maxMethods {
		q = outgoing.NewQueue(c.pacing, rand.Float64)
		c.queues[method] = q
	}
	return q
}
