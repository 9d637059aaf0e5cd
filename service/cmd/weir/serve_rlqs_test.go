package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A proxy that reports gets assignments, until the server drains.
func TestServeQuotas(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules: [{glob: 'shop|*', rate: 100/s, burst: 10}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serving(t, "--rules", rules, "--grpc-listen", "127.0.0.1:0", "--drain-delay", "0s")
	stream, err := rlqs.NewRateLimitQuotaServiceClient(newLimiter(t, s.grpcAddress()).conn).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first is about an assignment that is not known, which is left as it is
		if err := stream.Send(&rlqs.RateLimitQuotaUsageReports{Domain: "shop", BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{{
			BucketId:    &rlqs.BucketId{Bucket: map[string]string{"user": "42"}},
			TimeElapsed: durationpb.New(10 * time.Second), NumRequestsAllowed: 400,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	got := answer.BucketAction[0].GetQuotaAssignmentAction()
	if b := got.GetRateLimitStrategy().GetTokenBucket(); b.GetTokensPerFill().GetValue() != 400 || b.GetFillInterval().GetSeconds() != 10 || got.AssignmentTimeToLive.Seconds != 30 {
		t.Errorf("%v: want 40 requests a second for 30 s", answer)
	}
	metrics := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	for _, want := range []string{"weir_rlqs_streams 1", "weir_rlqs_reports_total 2", "weir_rlqs_refused_total 0"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics without %s", want)
		}
	}
	s.stop()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("while the server drains: %v", err)
	}
	if code := <-s.ended; code != 0 {
		t.Errorf("status %d", code)
	}
}
