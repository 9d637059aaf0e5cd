package grpcapi_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
)

// The cost of a call over loopback, without and with the bounds of calls and connections.
func BenchmarkCall(b *testing.B) {
	for _, bounded := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "bounded"}[bounded], func(b *testing.B) {
			r, err := config.ParseWith("rules.yaml", []byte(rules), config.RateLimitOptions{})
			testrig.Must(b, err)
			s, err := server.New(server.Config{Rules: r})
			testrig.Must(b, err)
			tcp, err := net.Listen("tcp", "127.0.0.1:0")
			testrig.Must(b, err)
			var cfg grpcapi.Config
			var opts []grpc.ServerOption
			ln := connlimit.New(tcp, 100)
			if bounded {
				cfg.BodyTimeout = 10 * time.Second
				opts = append(opts, grpcapi.SetIdle(ln.SetIdle))
			}
			api, err := grpcapi.New(s, cfg)
			testrig.Must(b, err)
			srv := api.NewServer(opts...)
			go func() { _ = srv.Serve(ln) }()
			defer srv.Stop()
			conn, err := grpc.NewClient(tcp.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			testrig.Must(b, err)
			defer conn.Close()
			client, request := rls.NewRateLimitServiceClient(conn), &rls.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{of("a", "1")}}
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := client.ShouldRateLimit(context.Background(), request); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
