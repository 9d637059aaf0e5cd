package weirotel

import (
	"context"

	"google.golang.org/grpc"

	"github.com/weir-go/weir/grpclimit"
)

// UnaryServer returns the interceptor of i for unary calls. It records the decisions.
func UnaryServer(i *grpclimit.Interceptor) grpc.UnaryServerInterceptor {
	limit := i.Unary()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		d := arrive(ctx)
		if !d.recorded() {
			return limit(ctx, req, info, handler)
		}
		admitted := false
		resp, err := limit(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			admitted = true
			d.admit()
			return handler(ctx, req)
		})
		if !admitted {
			d.refuse(err)
		}
		return resp, err
	}
}

// StreamServer returns the interceptor of i for streams. It records the decisions.
func StreamServer(i *grpclimit.Interceptor) grpc.StreamServerInterceptor {
	limit := i.Stream()
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		d := arrive(stream.Context())
		if !d.recorded() {
			return limit(srv, stream, info, handler)
		}
		admitted := false
		err := limit(srv, stream, info, func(srv any, stream grpc.ServerStream) error {
			admitted = true
			d.admit()
			return handler(srv, stream)
		})
		if !admitted {
			d.refuse(err)
		}
		return err
	}
}

// UnaryClient returns the interceptor of c for unary calls. It records the decision about the
// first attempt.
func UnaryClient(c *grpclimit.Client) grpc.UnaryClientInterceptor {
	limit := c.Unary()
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		d := arrive(ctx)
		if !d.recorded() {
			return limit(ctx, method, req, reply, conn, invoker, opts...)
		}
		sent := false
		err := limit(ctx, method, req, reply, conn, func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
			if !sent {
				sent = true
				d.admit()
			}
			return invoker(ctx, method, req, reply, conn, opts...)
		}, opts...)
		if !sent {
			d.refuse(err)
		}
		return err
	}
}

// StreamClient returns the interceptor of c for streams. It records the decisions.
func StreamClient(c *grpclimit.Client) grpc.StreamClientInterceptor {
	limit := c.Stream()
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		d := arrive(ctx)
		if !d.recorded() {
			return limit(ctx, desc, conn, method, streamer, opts...)
		}
		sent := false
		stream, err := limit(ctx, desc, conn, method, func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			sent = true
			d.admit()
			return streamer(ctx, desc, conn, method, opts...)
		}, opts...)
		if !sent {
			d.refuse(err)
		}
		return stream, err
	}
}
