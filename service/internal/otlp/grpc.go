package otlp

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A Call is a call over gRPC that has ended.
type Call struct {
	Method string      // such as /weir.v1.WeirService/Decide
	Header http.Header // of a call through net/http; of others, the context has the metadata
	Came   time.Time
	Err    error
	// Decided says that the answer has a decision, which is Allowed. With an error, there is no answer.
	Allowed, Decided bool
}

// ServerOptions returns options of a gRPC server, with a span for each call of a service; none if there are no traces.
// The last answer of a call has its decision, which decisionOf finds.
func (e *Exporter) ServerOptions(service string, decisionOf func(answer any) (allowed, decided bool)) []grpc.ServerOption {
	if !e.Traces() {
		return nil
	}
	called := func(ctx context.Context, method string, came time.Time, answer any, err error) {
		if !strings.HasPrefix(method, "/"+service+"/") {
			return
		}
		allowed, decided := decisionOf(answer)
		e.Called(ctx, Call{Method: method, Came: came, Err: err, Allowed: allowed, Decided: decided})
	}
	unary := func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		came := time.Now()
		answer, err := handler(ctx, request)
		called(ctx, info.FullMethod, came, answer, err)
		return answer, err
	}
	stream := func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		came, sent := time.Now(), &lastSent{ServerStream: s}
		err := handler(srv, sent)
		called(s.Context(), info.FullMethod, came, sent.message, err)
		return err
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary), grpc.ChainStreamInterceptor(stream)}
}

// A lastSent is a stream that keeps its last message.
type lastSent struct {
	grpc.ServerStream
	message any
}

func (s *lastSent) SendMsg(m any) error {
	s.message = m
	return s.ServerStream.SendMsg(m)
}

// Called records the span of a call. It must only be called if Traces.
func (e *Exporter) Called(ctx context.Context, c Call) {
	header := c.Header
	if header == nil {
		header = http.Header{}
		for _, name := range propagator.Fields() {
			for _, value := range metadata.ValueFromIncomingContext(ctx, name) {
				header.Add(name, value)
			}
		}
	}
	method, result := strings.TrimPrefix(c.Method, "/"), status.Code(c.Err)
	_, span := e.startFor(ctx, header, method, trace.WithTimestamp(c.Came), trace.WithAttributes(
		attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method), attribute.String("rpc.response.status_code", code.Code(result).String()),
	))
	switch { // as package weirotel names it
	case c.Err != nil || !c.Decided:
	case c.Allowed:
		span.SetAttributes(attribute.String("weir.decision", "admit"))
	default:
		span.SetAttributes(attribute.String("weir.decision", "reject"))
	}
	switch result { // as the semantic conventions have it for servers
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
