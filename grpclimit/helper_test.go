package grpclimit_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

const (
	emptyCall = "/grpc.testing.TestService/EmptyCall"
	duplex    = "/grpc.testing.TestService/FullDuplexCall"
)

// service is the test service of gRPC itself, with handlers made to measure.
type service struct {
	pb.UnimplementedTestServiceServer
	empty  func(context.Context) error
	duplex func(pb.TestService_FullDuplexCallServer) error
}

func (s *service) EmptyCall(ctx context.Context, _ *pb.Empty) (*pb.Empty, error) {
	if s.empty == nil {
		return &pb.Empty{}, nil
	}
	if err := s.empty(ctx); err != nil {
		return nil, err
	}
	return &pb.Empty{}, nil
}

func (s *service) FullDuplexCall(stream pb.TestService_FullDuplexCallServer) error {
	if s.duplex == nil {
		return echo(stream)
	}
	return s.duplex(stream)
}

// echo answers each message with one, until the client has sent all.
func echo(stream pb.TestService_FullDuplexCallServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// serve runs a service behind an Interceptor, if there is one, on a port of its
// own.
func serve(t testing.TB, s *service, i *grpclimit.Interceptor, more ...grpc.ServerOption) (addr string) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	testrig.Must(t, err)
	serveOn(t, lis, s, i, more...)
	return lis.Addr().String()
}

// serveOn runs a service on a listener.
func serveOn(t testing.TB, lis net.Listener, s *service, i *grpclimit.Interceptor, more ...grpc.ServerOption) {
	t.Helper()
	if i != nil {
		more = append(more, grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream()))
	}
	server := grpc.NewServer(more...)
	pb.RegisterTestServiceServer(server, s)
	go func() { _ = server.Serve(lis) }()
	t.Cleanup(server.Stop)
}

func dial(t testing.TB, addr string, more ...grpc.DialOption) (*grpc.ClientConn, pb.TestServiceClient) {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	testrig.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn, pb.NewTestServiceClient(conn)
}

// dialBy dials with a Client in front.
func dialBy(t testing.TB, c *grpclimit.Client, addr string, more ...grpc.DialOption) (*grpc.ClientConn, pb.TestServiceClient) {
	t.Helper()
	return dial(t, addr, append(more, grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream()))...)
}

func interceptor(t testing.TB, cfg grpclimit.Config) *grpclimit.Interceptor {
	t.Helper()
	i, err := grpclimit.New(cfg)
	testrig.Must(t, err)
	return i
}

func client(t testing.TB, cfg grpclimit.ClientConfig) *grpclimit.Client {
	t.Helper()
	c, err := grpclimit.NewClient(cfg)
	testrig.Must(t, err)
	return c
}

// fixed is a limit of n without a queue.
func fixed(t testing.TB, n int) *inflight.Limiter { return queued(t, n, -1) }

func queued(t testing.TB, n, queue int) *inflight.Limiter {
	t.Helper()
	l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(n), Queue: queue, MaxWait: -1})
	testrig.Must(t, err)
	return l
}

// once is a rule for one call an hour.
func once(t testing.TB, name string) grpclimit.Rule {
	t.Helper()
	return grpclimit.Overall(name, rate.NewLimiter(rate.Every(time.Hour), 1))
}

// refuse is a limiter that refuses everything, for a reason.
type refuse struct{ err error }

func (r refuse) Acquire(context.Context, int) (weir.Permit, error) { return weir.Permit{}, r.err }

// what a client gets to know of a call that was refused.
type told struct {
	code     codes.Code
	rule     string // "-": no QuotaFailure
	retry    time.Duration
	pushback string
	reason   string
}

func read(t testing.TB, err error, trailer metadata.MD) told {
	t.Helper()
	s, ok := status.FromError(err)
	if !ok {
		t.Errorf("%v: no status", err)
	}
	w := told{code: s.Code(), rule: "-", retry: -1}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.QuotaFailure:
			w.rule = d.Violations[0].Subject
			if len(d.Violations) != 1 || d.Violations[0].Description == "" {
				t.Errorf("%v: want one violation, described", d)
			}
		case *errdetails.RetryInfo:
			w.retry = d.RetryDelay.AsDuration()
		default:
			t.Errorf("%T: want no such detail", d)
		}
	}
	if v := trailer["grpc-retry-pushback-ms"]; len(v) == 1 {
		w.pushback = v[0]
	}
	if v := trailer["weir-reason"]; len(v) == 1 {
		w.reason = v[0]
	}
	return w
}

// ask makes a unary call.
func ask(ctx context.Context, t testing.TB, c pb.TestServiceClient, opts ...grpc.CallOption) (told, error) {
	t.Helper()
	var trailer metadata.MD
	_, err := c.EmptyCall(ctx, &pb.Empty{}, append(opts, grpc.Trailer(&trailer))...)
	if err == nil {
		return told{code: codes.OK, rule: "-", retry: -1}, nil
	}
	return read(t, err, trailer), err
}
