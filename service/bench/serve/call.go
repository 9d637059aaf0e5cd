package main

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	descriptor "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// theCall is the request of the loads over gRPC.
var theCall = &rls.RateLimitRequest{Domain: "edge", Descriptors: []*descriptor.RateLimitDescriptor{{
	Entries: []*descriptor.RateLimitDescriptor_Entry{{Key: "user", Value: "42"}},
}}}

// frameOfCall returns theCall with gRPC's prefix.
func frameOfCall() ([]byte, error) {
	message, err := proto.Marshal(theCall)
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...), err
}

// allowed checks that a server allows theCall: h2load does not see the status of gRPC.
func allowed(addr string) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, theCall)
	if err == nil && answer.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		err = errors.New("the call is over the limit")
	}
	return err
}
