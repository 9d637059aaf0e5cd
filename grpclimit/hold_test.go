package grpclimit_test

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/testrig"
)

// bareStream is a stream of which only the context is there.
type bareStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *bareStream) Context() context.Context { return s.ctx }

func peerAt(ctx context.Context, addr string) context.Context {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return peer.NewContext(ctx, &peer.Peer{Addr: &net.UnixAddr{Name: addr, Net: "unix"}})
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: net.TCPAddrFromAddrPort(at)})
}

// A stream holds one unit from its start until its handler has returned,
// however many messages it has.
func TestStreamHoldsOne(t *testing.T) {
	lim := fixed(t, 1)
	returned := make(chan struct{})
	s := &service{duplex: func(stream pb.TestService_FullDuplexCallServer) error { defer close(returned); return echo(stream) }}
	i := interceptor(t, grpclimit.Config{Limiter: lim})
	_, c := dial(t, serve(t, s, i))
	stream, err := c.FullDuplexCall(t.Context())
	testrig.Must(t, err)
	for range 10 {
		testrig.Must(t, stream.Send(&pb.StreamingOutputCallRequest{}))
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		if n := lim.Stats().Inflight; n != 1 {
			t.Fatalf("%d in flight: want 1", n)
		}
	}
	other, err := c.FullDuplexCall(t.Context())
	if err == nil {
		_, err = other.Recv()
	}
	if got := read(t, err, other.Trailer()); got.code != codes.Unavailable || got.reason != "over_limit" {
		t.Errorf("a second stream: %+v", got)
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	<-returned
	testrig.Eventually(t, "the unit is free", func() bool { return lim.Stats().Inflight == 0 })
	if c := i.Stats().Classes[0]; c.Admitted != 1 || c.Refused[weir.OverLimit] != 1 || c.Outcomes[weir.Success] != 1 {
		t.Errorf("%+v", c)
	}
}

// A panic gives the unit back, and says nothing about load, be the interceptor
// that recovers in front or behind. So does an exit of the handler's goroutine.
func TestPanic(t *testing.T) {
	recovers := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Errorf(codes.Internal, "panic: %v", p)
			}
		}()
		return next(ctx, req)
	}
	recoversStream := func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = status.Errorf(codes.Internal, "panic: %v", p)
			}
		}()
		return next(srv, ss)
	}
	broken := &service{
		empty:  func(context.Context) error { panic("oops") },
		duplex: func(pb.TestService_FullDuplexCallServer) error { panic("oops") },
	}
	for _, front := range []bool{true, false} {
		lim := fixed(t, 1)
		i := interceptor(t, grpclimit.Config{Limiter: lim, Rules: []grpclimit.Rule{once(t, "shadow").Shadow()}})
		unary, stream := []grpc.UnaryServerInterceptor{recovers, i.Unary()}, []grpc.StreamServerInterceptor{recoversStream, i.Stream()}
		if !front {
			unary[0], unary[1], stream[0], stream[1] = unary[1], unary[0], stream[1], stream[0]
		}
		_, c := dial(t, serve(t, broken, nil, grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)))
		for range 3 {
			if got, err := ask(t.Context(), t, c); got.code != codes.Internal {
				t.Errorf("%v, %v", got, err)
			}
			s, err := c.FullDuplexCall(t.Context())
			if err == nil {
				_, err = s.Recv()
			}
			if status.Code(err) != codes.Internal {
				t.Error(err)
			}
		}
		if s, c := lim.Stats(), i.Stats().Classes[0]; s.Inflight != 0 || s.Outcomes[weir.Ignored] != 6 || c.Outcomes[weir.Ignored] != 6 {
			t.Errorf("%+v %+v", s, c)
		}
	}
	lim := fixed(t, 1)
	i := interceptor(t, grpclimit.Config{Limiter: lim})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = i.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(context.Context, any) (any, error) {
			runtime.Goexit()
			return nil, nil
		})
	}()
	<-done
	if s := lim.Stats(); s.Inflight != 0 || s.Outcomes[weir.Ignored] != 1 {
		t.Errorf("%+v", s)
	}
}

// gRPC's own client, with a retry policy, obeys the pushback, and does not retry
// after a negative one.
func TestPushback(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s",
		"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`
	for _, tt := range []struct {
		why      weir.Reason
		wait     time.Duration
		attempts uint64
		took     time.Duration
	}{
		{weir.OverRate, 100 * time.Millisecond, 3, 200 * time.Millisecond},
		{weir.QueueFull, 100 * time.Millisecond, 3, 200 * time.Millisecond},
		{weir.OverRate, weir.Never, 1, 0},
		{weir.OverBurst, weir.Never, 1, 0},
		{weir.Closed, weir.Never, 3, 0}, // another server may be open
	} {
		i := interceptor(t, grpclimit.Config{Limiter: refuse{weir.Reject(tt.why, tt.wait)}})
		_, c := dial(t, serve(t, &service{}, i), grpc.WithDefaultServiceConfig(policy))
		began := time.Now()
		_, err := ask(t.Context(), t, c)
		if n := i.Stats().Classes[0].Refused[tt.why]; err == nil || n != tt.attempts || time.Since(began) < tt.took {
			t.Errorf("%v after %v: %d attempts in %v, want %d in %v at least", tt.why, tt.wait, n, time.Since(began), tt.attempts, tt.took)
		}
	}
}

// A call leaves the queue at its deadline, which comes with the call.
func TestDeadlineOverTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := queued(t, 1, 10)
		p, _ := lim.Acquire(t.Context(), 1)
		lis := bufconn.Listen(1 << 16)
		serveOn(t, lis, &service{}, interceptor(t, grpclimit.Config{Limiter: lim}))
		_, c := dial(t, "passthrough:pipe", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if got, err := ask(ctx, t, c); got.code != codes.DeadlineExceeded {
			t.Errorf("%+v, %v", got, err)
		}
		synctest.Wait()
		if st := lim.Stats(); st.Waiting != 0 || st.Cancelled != 1 {
			t.Errorf("%+v: want the call to have left the queue", st)
		}
		p.Release(weir.Success)
		if _, err := ask(t.Context(), t, c); err != nil {
			t.Error(err)
		}
	})
}
