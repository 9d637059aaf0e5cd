// Package grpcotel exports the servers and clients of package grpclimit to OpenTelemetry, as
// package weirotel does for other limiters, which documents the metrics and the traces. It is a
// package of its own so that a service without gRPC does not link it.
package grpcotel

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/admission"
	"github.com/weir-go/weir/internal/measure"
	"github.com/weir-go/weir/weirotel/internal/decision"
	"github.com/weir-go/weir/weirotel/internal/instrument"
)

// MeasureServer registers the metrics of an Interceptor until the Registration is unregistered.
// It panics if i is nil, or if the name is empty or not UTF-8. An error is one of the meter.
func MeasureServer(meter metric.Meter, name string, i *grpclimit.Interceptor) (metric.Registration, error) {
	instrument.Need(i)
	return instrument.Register(meter, name, &measure.GRPC, func() admission.Stats { return admission.Stats(i.Stats()) })
}

// MeasureClient registers the metrics of a gRPC client, as MeasureServer does.
func MeasureClient(meter metric.Meter, name string, c *grpclimit.Client) (metric.Registration, error) {
	instrument.Need(c)
	return instrument.Register(meter, name, &measure.GRPCClient, func() measure.Client { return measure.Client(c.Stats()) })
}

// UnaryServer returns the interceptor of i for unary calls. It records the decisions.
func UnaryServer(i *grpclimit.Interceptor) grpc.UnaryServerInterceptor {
	limit := i.Unary()
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		d := decision.Arrive(ctx)
		if !d.Recorded() {
			return limit(ctx, req, info, handler)
		}
		admitted := false
		resp, err := limit(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			admitted = true
			d.Admit()
			return handler(ctx, req)
		})
		if !admitted {
			d.Refuse(err)
		}
		return resp, err
	}
}

// StreamServer returns the interceptor of i for streams. It records the decisions.
func StreamServer(i *grpclimit.Interceptor) grpc.StreamServerInterceptor {
	limit := i.Stream()
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		d := decision.Arrive(stream.Context())
		if !d.Recorded() {
			return limit(srv, stream, info, handler)
		}
		admitted := false
		err := limit(srv, stream, info, func(srv any, stream grpc.ServerStream) error {
			admitted = true
			d.Admit()
			return handler(srv, stream)
		})
		if !admitted {
			d.Refuse(err)
		}
		return err
	}
}

// UnaryClient returns the interceptor of c for unary calls. It records the decision about the
// first attempt.
func UnaryClient(c *grpclimit.Client) grpc.UnaryClientInterceptor {
	limit := c.Unary()
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		d := decision.Arrive(ctx)
		if !d.Recorded() {
			return limit(ctx, method, req, reply, conn, invoker, opts...)
		}
		sent := false
		err := limit(ctx, method, req, reply, conn, func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
			if !sent {
				sent = true
				d.Admit()
			}
			return invoker(ctx, method, req, reply, conn, opts...)
		}, opts...)
		if !sent {
			d.Refuse(err)
		}
		return err
	}
}

// StreamClient returns the interceptor of c for streams. It records the decisions.
func StreamClient(c *grpclimit.Client) grpc.StreamClientInterceptor {
	limit := c.Stream()
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		d := decision.Arrive(ctx)
		if !d.Recorded() {
			return limit(ctx, desc, conn, method, streamer, opts...)
		}
		sent := false
		stream, err := limit(ctx, desc, conn, method, func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			sent = true
			d.Admit()
			return streamer(ctx, desc, conn, method, opts...)
		}, opts...)
		if !sent {
			d.Refuse(err)
		}
		return stream, err
	}
}
