package main

import (
	"context"
	"fmt"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const (
	reload   = 400 * time.Millisecond // until a file is read
	ofTokens = "serve.md#tokens"
)

var grpcRows = []row{{"gRPC", "rotated token, that one of two callers has", func(w *world) {
	h := w.host()
	before, after := "a-token-of-callers-1", "another-token-of-callers"
	limits := h.start(8082, w.weir, "serve", "--listen", h.ip+":8080", "--admin", h.ip+":8081", "--grpc-listen", h.ip+":8082", "--tokens", w.allow(before),
		"--rules", w.file("rules.yaml", fmt.Sprintf("rules: [{name: users, glob: \"edge|user=*\", rate: %d/s, burst: %d}]\n", rate, burst))).untilReady()
	conn, err := grpc.NewClient(limits.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	l := w.startLoad(2, 3, w.descriptors(rls.NewRateLimitServiceClient(conn), before, after))
	w.pause(2 * time.Second)
	from := l.now()
	w.allow(after)
	w.pause(2 * time.Second)
	all := l.stop()
	control := time.Duration(w.control.sofar().between(from, l.now()).quantile(1) * float64(time.Millisecond))
	first, then := all.between(0, from), all.between(from+reload+control, l.now())
	w.excess(all, burst, "*b*: it decides", ofGuarantees)
	w.none("requests without a decision, with the token that counts", append(first.of(0).failures(), then.of(1).failures()...), "it decides", ofTokens)
	w.none("decisions with the other one, from 400 ms and the control's longest after the change on", append(first.of(1).decided(), then.of(0).decided()...), "the file is read then", ofTokens)
	check(conn.Close())
}}}

// descriptors is an asker for a descriptor over gRPC. Each target is callers with one of the tokens.
func (w *world) descriptors(c rls.RateLimitServiceClient, tokens ...string) asker {
	return func(target int) (bool, string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokens[target])
		resp, err := c.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "k"}}}}})
		return resp.GetOverallCode() == rls.RateLimitResponse_OK, "", err
	}
}

// decided returns the answers with a decision.
func (all answers) decided() (some answers) {
	for _, a := range all {
		if a.err == nil {
			some = append(some, a)
		}
	}
	return some
}
