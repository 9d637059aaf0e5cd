package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/rate"
)

// A server that admits two calls at once, and then one a minute; and a client that
// does not wait for that.
func Example() {
	i, err := grpclimit.New(grpclimit.Config{
		Rules:  []grpclimit.Rule{grpclimit.Overall("all", rate.NewLimiter(rate.Every(time.Minute), 2))},
		Exempt: []string{}, // the example calls the health service, which is exempt by default
	})
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(i.Unary()), grpc.ChainStreamInterceptor(i.Stream()))
	healthpb.RegisterHealthServer(server, health.NewServer())
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() { _ = server.Serve(lis) }()
	defer server.Stop()

	c, err := grpclimit.NewClient(grpclimit.ClientConfig{MaxWait: time.Second})
	if err != nil {
		panic(err)
	}
	conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(c.Unary()), grpc.WithChainStreamInterceptor(c.Stream()))
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	for range 4 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err), errors.Is(err, weir.ErrRejected))
	}
	// Output:
	// OK false
	// OK false
	// ResourceExhausted false
	// ResourceExhausted true
}
