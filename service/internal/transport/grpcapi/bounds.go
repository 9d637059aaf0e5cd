package grpcapi

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/weir-go/weir/service/internal/connlimit"
)

// limitCalls returns a hook that bounds the time of the calls of a server, because a call without a message would have no
// end: unary calls as a whole, unless their clients have set an earlier deadline, and streams until their first message.
func limitCalls(s func() *grpc.Server, within time.Duration) tap.ServerInHandle {
	streams := sync.OnceValue(func() map[string]bool { // when all services are registered
		methods := map[string]bool{}
		for name, of := range s().GetServiceInfo() {
			for _, m := range of.Methods {
				methods["/"+name+"/"+m.Name] = m.IsServerStream || m.IsClientStream
			}
		}
		return methods
	})
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if streams()[info.FullMethodName] {
			bounded, cancel := context.WithCancel(ctx)
			c := &messageContext{Context: bounded}
			c.timer = time.AfterFunc(within, func() {
				c.late.Store(true)
				cancel()
			})
			return c, nil
		}
		if by, ok := ctx.Deadline(); ok && time.Until(by) <= within {
			return ctx, nil
		}
		bounded, cancel := context.WithTimeout(ctx, within)
		_ = cancel // the end of the stream cancels ctx
		return bounded, nil
	}
}

// A messageContext is the context of a stream. Its deadline counts until a message has come.
type messageContext struct {
	context.Context
	timer *time.Timer
	late  atomic.Bool
}

func (c *messageContext) Err() error {
	if c.late.Load() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// messageKey is the context key for the messageContext itself.
type messageKey struct{}

func (c *messageContext) Value(key any) any {
	if key == (messageKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// A stream ends the deadline of its messageContext when a message has come.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if c, ok := s.ctx.Value(messageKey{}).(*messageContext); ok && err == nil {
		c.timer.Stop()
	}
	return err
}

// SetIdle returns an option of NewServer. setIdle is called with false when a call of a
// connection begins, and with true when its last one has ended. A call of ShouldRateLimit
// begins when its message has come, as all unary calls do. Health checks and reflection, which need no token, do not
// count. setIdle is called from many goroutines, but for a connection from one at a time.
func SetIdle(setIdle func(nc net.Conn, idle bool)) grpc.ServerOption {
	return grpc.Creds(tellsIdle{insecure.NewCredentials(), setIdle})
}

// tellsIdle is the credentials of connections that are not encrypted here. They attach a
// connection to its calls.
type tellsIdle struct {
	credentials.TransportCredentials
	setIdle func(nc net.Conn, idle bool)
}

func (t tellsIdle) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nc, &conn{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, nc: nc, setIdle: t.setIdle}, nil
}

// A conn counts the calls of a connection. A nil *conn does not.
type conn struct {
	credentials.CommonAuthInfo
	nc      net.Conn
	setIdle func(nc net.Conn, idle bool)
	mu      sync.Mutex // guards calls, and orders calls of setIdle
	calls   int
}

// AuthType makes a conn a credentials.AuthInfo.
func (c *conn) AuthType() string { return "insecure" }

// connOf returns the connection of a call; nil if it came through no server with SetIdle.
func connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*conn)
	return c
}

func (c *conn) enter() { c.add(1) }

func (c *conn) leave() { c.add(-1) }

func (c *conn) add(n int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.calls
	if c.calls += n; was == 0 || c.calls == 0 {
		c.setIdle(c.nc, c.calls == 0)
	}
}

// own reports whether a method is of a service of package grpc.
func own(method string) bool { return strings.HasPrefix(method, "/grpc.") }

// serveStream serves a stream within the bounds of its connection. It counts as a call, unless it is own.
func serveStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c := connOf(s.Context())
	if !own(info.FullMethod) {
		c.enter()
		defer c.leave()
	}
	return handler(srv, &stream{s, c.context(s.Context())})
}

// serveUnary serves a call whose message has come, except ShouldRateLimit. It counts, unless it is own.
func serveUnary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c := connOf(ctx)
	if !own(info.FullMethod) {
		c.enter()
		defer c.leave()
	}
	return handler(c.context(ctx), request)
}

// context returns the context of a call, of which connlimit.ClientOf tells the client.
func (c *conn) context(ctx context.Context) context.Context {
	if c == nil {
		return ctx
	}
	return connlimit.Context(ctx, c.nc)
}
