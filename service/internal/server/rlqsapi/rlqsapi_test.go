package rlqsapi_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/rlqsapi"
	"github.com/weir-go/weir/service/internal/server/token"
)

const ttl = server.DefaultAssignmentTTL

// A rig is a server over connections in memory, in virtual time.
type rig struct {
	t   *testing.T
	api *rlqsapi.API
	srv *server.Server
	cl  rlqs.RateLimitQuotaServiceClient
}

func run(t *testing.T, cfg rlqsapi.Config, rules []config.Rule, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.New(server.Config{Rules: &config.Rules{Rules: rules}})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, api: rlqsapi.New(srv, cfg), srv: srv}
		g := grpc.NewServer()
		r.api.Register(g)
		ln := bufconn.Listen(1 << 20)
		go g.Serve(ln)
		conn, err := grpc.NewClient("passthrough:memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		r.cl = rlqs.NewRateLimitQuotaServiceClient(conn)
		f(r)
		conn.Close()
		g.Stop()
		synctest.Wait()
		if n := r.api.Stats().Streams; n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// A proxy is a stream.
type proxy struct {
	rlqs.RateLimitQuotaService_StreamRateLimitQuotasClient
	t   *testing.T
	end func()
}

func (r *rig) proxy() *proxy {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(r.t.Context(), "authorization", "Bearer a-secret-of-16-bytes"))
	s, err := r.cl.StreamRateLimitQuotas(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &proxy{s, r.t, func() { cancel(); synctest.Wait() }}
}

// report sends the use of the bucket {user: name} since the last report, and returns the
// actions that are the answer, if there is one at once.
func (p *proxy) report(domain, name string, allowed, denied uint64, elapsed time.Duration) []*rlqs.RateLimitQuotaResponse_BucketAction {
	p.t.Helper()
	if err := p.Send(&rlqs.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId:    &rlqs.BucketId{Bucket: map[string]string{"user": name, "a": "b|"}},
		TimeElapsed: durationpb.New(elapsed), NumRequestsAllowed: allowed, NumRequestsDenied: denied,
	}}}); err != nil {
		p.t.Fatal(err)
	}
	got := make(chan []*rlqs.RateLimitQuotaResponse_BucketAction, 1)
	go func() {
		resp, _ := p.Recv()
		got <- resp.GetBucketAction()
	}()
	synctest.Wait()
	select {
	case actions := <-got:
		return actions
	default:
		return nil
	}
}

// rate returns the rate that an answer assigns: -1 without an answer, +Inf for all.
func (p *proxy) rate(domain, name string, allowed, denied uint64) float64 {
	p.t.Helper()
	actions := p.report(domain, name, allowed, denied, 0)
	if len(actions) == 0 {
		return -1
	}
	a := actions[0].GetQuotaAssignmentAction()
	if got := a.GetAssignmentTimeToLive().AsDuration(); got != ttl {
		p.t.Errorf("a time to live of %v", got)
	}
	s := a.GetRateLimitStrategy()
	if b := s.GetTokenBucket(); b != nil {
		return float64(b.GetTokensPerFill().GetValue()) / b.GetFillInterval().AsDuration().Seconds()
	}
	if s.GetBlanketRule() == envoytype.RateLimitStrategy_DENY_ALL {
		return 0
	}
	return math.Inf(1)
}

var perKey = []config.Rule{{Name: "users", Glob: "shop|*", Quota: config.Quota{Rate: config.Rate{Count: 1000, Period: time.Second}, Burst: 50}}}

func TestProxiesShareARate(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		time.Sleep(ttl)
		a, b := r.proxy(), r.proxy()
		var got [2]float64
		for range 4 {
			got = [2]float64{a.rate("shop", "x", 4000, 0), b.rate("shop", "x", 0, 500)}
			time.Sleep(time.Second)
		}
		if got != [2]float64{500, 500} {
			t.Errorf("two proxies that want more have %v of 1000", got)
		}
		if got := a.rate("other", "x", 1, 0); !math.IsInf(got, 1) {
			t.Errorf("a bucket without a rule has %v", got)
		}
		a.rate("shop", "x", 4000, 0)
		if x, _ := r.srv.Explain(t.Context(), "shop|a=b%7C|user=x"); x.Rules[0].Used == 0 {
			t.Errorf("the reports do not count: %+v", x)
		}
	})
}

// Neither the rate nor the burst loses a token by rounding.
func TestAProxyAloneHasAll(t *testing.T) {
	rules := []config.Rule{{Name: "users", Glob: "shop|*", Quota: config.Quota{Rate: config.Rate{Count: 36, Period: time.Hour}, Burst: 20}}}
	run(t, rlqsapi.Config{}, rules, func(r *rig) {
		time.Sleep(ttl)
		got := r.proxy().report("shop", "x", 1, 0, 0)[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket()
		if got.GetMaxTokens() != 20 || got.GetTokensPerFill().GetValue() != 864 || got.GetFillInterval().GetSeconds() != 86400 {
			t.Errorf("36 an hour, and 20 at once: %v", got)
		}
	})
}

func TestAProxyThatConnectsAgainKeepsItsAssignment(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		time.Sleep(ttl)
		a := r.proxy()
		for range 3 {
			a.rate("shop", "x", 1000, 0)
			time.Sleep(time.Second)
		}
		a.end()
		a = r.proxy()
		if got := a.rate("shop", "x", 1000, 0); got != 1000 {
			t.Errorf("connected again, it has %v of 1000", got)
		}
		b := r.proxy()
		if got := b.rate("shop", "x", 1000, 0); got != 0 {
			t.Errorf("another proxy of this address has %v", got)
		}
		a.end()
		b.end()
		time.Sleep(2 * ttl)
		if got := r.proxy().rate("shop", "x", 1000, 0); got != 1000 {
			t.Errorf("after all have ended: %v", got)
		}
	})
}

func TestAfterAStart(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		old := r.proxy()
		if got := old.report("shop", "x", 4000, 1000, 10*time.Second); len(got) != 1 ||
			got[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket().GetTokensPerFill().GetValue() != 400 {
			t.Errorf("a proxy that has used 400 a second gets %v", got)
		}
		fresh := r.proxy()
		if got := fresh.rate("shop", "x", 1, 0); got != -1 {
			t.Errorf("a new proxy gets %v", got)
		}
		fresh.end()
	})
}

func TestBadReports(t *testing.T) {
	var guard token.Guard
	use := func(text string) {
		set, err := token.Parse("tokens.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		guard.Use(set)
	}
	use(`tokens: [{name: a, token: a-secret-of-16-bytes, keys: ["shop|a=b%7C|user=?"]}]`)
	run(t, rlqsapi.Config{MaxKey: 100, MaxBuckets: 2, Identify: guard.Identify}, perKey, func(r *rig) {
		time.Sleep(ttl)
		p := r.proxy()
		for i, c := range []struct {
			name     string
			answered bool
		}{{"x", true}, {"forbidden", false}, {fmt.Sprint(make([]byte, 100)), false}, {"y", true}, {"z", false}, {"x", true}} {
			if got := p.rate("shop", c.name, 1, 0) != -1; got != c.answered {
				t.Errorf("report %d is answered: %v", i, got)
			}
			if !c.answered {
				p.end()
				p = r.proxy()
			}
		}
		if got := r.api.Stats(); got.Refused != 3 || got.Reports != 6 {
			t.Errorf("%+v", got)
		}
		for _, c := range []struct {
			domain, name string
			want         codes.Code
		}{{"", "x", codes.InvalidArgument}, {"shop", "x", codes.Unauthenticated}} {
			if c.want == codes.Unauthenticated {
				use("tokens: []")
			}
			p := r.proxy()
			if err := p.Send(&rlqs.RateLimitQuotaUsageReports{Domain: c.domain, BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{{
				BucketId: &rlqs.BucketId{Bucket: map[string]string{"user": c.name, "a": "b|"}}}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Recv(); status.Code(err) != c.want {
				t.Errorf("domain %q, user %q: %v", c.domain, c.name, err)
			}
		}
		guard.Use(nil)
		r.api.Close()
		if _, err := r.proxy().Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A stream without a report ends.
func TestFirstReport(t *testing.T) {
	run(t, rlqsapi.Config{FirstReport: 10 * time.Second}, perKey, func(r *rig) {
		silent, reporting := r.proxy(), r.proxy()
		reporting.report("shop", "x", 1, 0, 0)
		start := time.Now()
		_, err := silent.Recv()
		if took := time.Since(start); status.Code(err) != codes.DeadlineExceeded || took != 10*time.Second {
			t.Errorf("without a report: %v after %v", err, took)
		}
		time.Sleep(time.Hour)
		if n := r.api.Stats().Streams; n != 1 {
			t.Errorf("%d streams after an hour: want the one that has reported", n)
		}
		reporting.end()
	})
}
