package grpcapi

import (
	"context"
	"net/http"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// Bounds of a connection.
const (
	maxStreams     = 250
	maxHeaderBytes = 16 << 10
	idleTime       = 2 * time.Minute // as package httpserve has it
	pingAfter      = time.Minute
)

// NewServer returns a gRPC server of the rate-limit service, with health checks and
// reflection.
func (a *API) NewServer(opts ...grpc.ServerOption) *grpc.Server {
	var s *grpc.Server
	if a.cfg.BodyTimeout > 0 {
		opts = append(opts, grpc.InTapHandle(limitCalls(func() *grpc.Server { return s }, a.cfg.BodyTimeout)))
	}
	s = grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime, MaxConnectionAge: a.cfg.MaxConnectionAge, Time: pingAfter, Timeout: 20 * time.Second}),
		grpc.StreamInterceptor(serveStream), grpc.UnaryInterceptor(serveUnary),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, opts...)...)
	desc := rls.RateLimitService_ServiceDesc
	desc.HandlerType, desc.Methods = (*any)(nil), []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}}
	s.RegisterService(&desc, a)
	healthpb.RegisterHealthServer(s, a.health)
	reflection.Register(s)
	return s
}

// shouldRateLimit is the handler of the method. The call that it returns ends when the codec
// has encoded it.
func shouldRateLimit(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	a := srv.(*API)
	came := a.clock()
	c, err := a.decide(ctx, decode)
	a.end(ctx, nil, came, err, err == nil && c.over)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// decide decides a call that decode decodes.
func (a *API) decide(ctx context.Context, decode func(any) error) (*call, error) {
	session, err := a.Identify(ctx)
	if err != nil {
		return nil, err
	}
	c := a.calls.Get().(*call)
	if err = decode(c); err == nil {
		conn := connOf(ctx)
		conn.enter()
		err = a.answer(ctx, c, session)
		conn.leave()
	}
	if err != nil {
		a.forget(c)
		return nil, err
	}
	return c, nil
}

// clock returns the time of arrival of a call, if anything needs it.
func (a *API) clock() (now time.Time) {
	if a.cfg.Answered != nil {
		now = time.Now()
	}
	return now
}

// end counts the answer to a call, and tells of it.
func (a *API) end(ctx context.Context, header http.Header, came time.Time, err error, over bool) {
	if a.count(err); over {
		a.over.Add(1)
	}
	if a.cfg.Answered != nil {
		a.cfg.Answered(ctx, header, came, err, over)
	}
}

// count counts an answer.
func (a *API) count(err error) {
	code := codes.OK
	if err != nil {
		code = status.Code(err)
	}
	a.answers[min(int(code), len(a.answers)-1)].Add(1)
}

// A codec encodes and decodes calls, and leaves other messages to package proto.
type codec struct{ encoding.CodecV2 }

func (d codec) Unmarshal(data mem.BufferSlice, v any) error {
	c, ok := v.(*call)
	if !ok {
		return d.CodecV2.Unmarshal(data, v)
	}
	if len(data) == 1 {
		return c.decode(data[0].ReadOnlyData())
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return c.decode(b.ReadOnlyData())
}

func (d codec) Marshal(v any) (mem.BufferSlice, error) {
	c, ok := v.(*call)
	if !ok {
		return d.CodecV2.Marshal(v)
	}
	b := mem.BufferSlice{mem.Copy(c.out, mem.DefaultBufferPool())}
	c.api.forget(c)
	return b, nil
}

// healthName is the service name that envoyproxy/ratelimit reports.
const healthName = "ratelimit"

func newHealth() *health.Server {
	h := health.NewServer()
	for _, name := range []string{healthName, rls.RateLimitService_ServiceDesc.ServiceName} {
		h.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	return h
}

// Drain reports to health checks that the service is about to end.
func (a *API) Drain() { a.health.Shutdown() }
