package grpclimit_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/keyed"
)

func perClient(t testing.TB) grpclimit.Rule {
	t.Helper()
	lim, err := keyed.New[netip.Addr](gcra.Per(1e9, time.Second, 1e9), keyed.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return grpclimit.PerKey("per-client", lim, grpclimit.Address())
}

// What a whole call costs over a loopback connection, client and server, without
// and with the interceptors.
func BenchmarkCall(b *testing.B) {
	for _, bb := range []struct {
		name   string
		server *grpclimit.Interceptor
		client *grpclimit.Client
	}{
		{"none", nil, nil},
		{"server auto", interceptor(b, grpclimit.Config{PerClass: grpclimit.Auto}), nil},
		{"server auto and a rule", interceptor(b, grpclimit.Config{PerClass: grpclimit.Auto, Rules: []grpclimit.Rule{perClient(b)}}), nil},
		{"server refuses", interceptor(b, grpclimit.Config{Limiter: refuse{weir.Reject(weir.OverLimit, 0)}}), nil},
		{"client", nil, client(b, grpclimit.ClientConfig{})},
	} {
		b.Run(bb.name, func(b *testing.B) {
			addr := serve(b, &service{}, bb.server)
			_, c := dial(b, addr)
			if bb.client != nil {
				_, c = dialBy(b, bb.client, addr)
			}
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					_, _ = c.EmptyCall(context.Background(), &pb.Empty{})
				}
			})
		})
	}
}

// trailers is the transport of a call, and drops its trailers.
type trailers struct{ grpc.ServerTransportStream }

func (trailers) SetTrailer(metadata.MD) error { return nil }

func served(ctx context.Context) context.Context {
	return grpc.NewContextWithServerTransportStream(peerAt(ctx, "192.0.2.1:1234"), trailers{})
}

// What the interceptors alone cost.
func BenchmarkInterceptor(b *testing.B) {
	ctx := served(b.Context())
	info := &grpc.UnaryServerInfo{FullMethod: emptyCall}
	next := func(context.Context, any) (any, error) { return nil, nil }
	for _, bb := range []struct {
		name string
		cfg  grpclimit.Config
	}{
		{"auto", grpclimit.Config{PerClass: grpclimit.Auto}},
		{"rule", grpclimit.Config{Rules: []grpclimit.Rule{perClient(b)}}},
		{"refuses", grpclimit.Config{Limiter: refuse{weir.Reject(weir.OverLimit, 0)}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			unary := interceptor(b, bb.cfg).Unary()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = unary(ctx, nil, info, next)
			}
		})
	}
	b.Run("client", func(b *testing.B) {
		unary := client(b, grpclimit.ClientConfig{}).Unary()
		invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
		b.ReportAllocs()
		for b.Loop() {
			_ = unary(ctx, emptyCall, nil, nil, nil, invoke)
		}
	})
}
