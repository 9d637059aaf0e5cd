package grpcapi

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// limitCall sets the deadline of a call, unless its client has set an earlier one. Otherwise a
// call without a message would have no end. Streams have no deadline.
func (a *API) limitCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch info.FullMethodName {
	case unaryPath, healthpb.Health_Check_FullMethodName, healthpb.Health_List_FullMethodName:
	default:
		return ctx, nil
	}
	if by, ok := ctx.Deadline(); ok && time.Until(by) <= a.cfg.BodyTimeout {
		return ctx, nil
	}
	bounded, cancel := context.WithTimeout(ctx, a.cfg.BodyTimeout)
	_ = cancel // the end of the stream cancels ctx
	return bounded, nil
}

// SetIdle returns an option of NewServer. setIdle is called with false when a call of a
// connection begins, and with true when its last one has ended. A call of ShouldRateLimit
// begins when its message has come. Health checks and reflection, which need no token, do not
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

// countStream counts a stream as a call, unless it is of a service of package grpc.
func countStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !strings.HasPrefix(info.FullMethod, "/grpc.") {
		c := connOf(s.Context())
		c.enter()
		defer c.leave()
	}
	return handler(srv, s)
}
