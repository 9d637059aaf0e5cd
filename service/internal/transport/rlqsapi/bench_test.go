package rlqsapi_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
)

// A stream has the messages of one proxy as on the wire, without a network.
type stream struct {
	grpc.ServerStream
	ctx     context.Context
	reports chan []byte
	answers chan []byte
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) Recv() (*rlqs.RateLimitQuotaUsageReports, error) {
	select {
	case wire := <-s.reports:
		r := new(rlqs.RateLimitQuotaUsageReports)
		return r, proto.Unmarshal(wire, r)
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *stream) Send(r *rlqs.RateLimitQuotaResponse) error {
	wire, err := proto.Marshal(r)
	s.answers <- wire
	return err
}

// BenchmarkReport measures reports of a proxy with 100 buckets, without the network. An operation is the
// report of one bucket.
func BenchmarkReport(b *testing.B) {
	srv, err := server.New(server.Config{Rules: &config.Rules{Rules: perKey}})
	testrig.Must(b, err)
	api := rlqsapi.New(srv, rlqsapi.Config{})
	const buckets = 100
	message := &rlqs.RateLimitQuotaUsageReports{Domain: "shop"}
	for i := range buckets {
		message.BucketQuotaUsages = append(message.BucketQuotaUsages, &rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &rlqs.BucketId{Bucket: map[string]string{"user": fmt.Sprint(i)}}, TimeElapsed: durationpb.New(5 * time.Second), NumRequestsAllowed: 3000, NumRequestsDenied: 3000,
		})
	}
	wire, err := proto.Marshal(message)
	testrig.Must(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	s := &stream{ctx: ctx, reports: make(chan []byte), answers: make(chan []byte, 1)}
	ended := make(chan error)
	go func() { ended <- api.StreamRateLimitQuotas(s) }()
	for n := 0; b.Loop(); n++ {
		if n%buckets == 0 {
			s.reports <- wire
			<-s.answers
		}
	}
	cancel()
	<-ended
}
