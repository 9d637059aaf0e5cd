// Grpcfloor serves Envoy's rate-limit service with a bare grpc-go server that decides nothing:
// every answer is empty. Compare weir serve --grpc-listen with it, to subtract what gRPC alone
// takes of the processor. docs/envoy.md has the commands that measure both.
//
//	cd service/bench && go run ./grpcfloor -listen 127.0.0.1:8083
package main

import (
	"context"
	"flag"
	"log"
	"net"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// floor answers without a decision.
type floor struct {
	rls.UnimplementedRateLimitServiceServer
}

func (floor) ShouldRateLimit(context.Context, *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	return &rls.RateLimitResponse{}, nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8083", "the address to serve")
	flag.Parse()
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, floor{})
	log.Printf("serving gRPC at %s", ln.Addr())
	log.Fatal(s.Serve(ln))
}
