package rlqsapi_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
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
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
)

const ttl = server.DefaultAssignmentTTL

// A rig is a server over connections in memory, in virtual time.
type rig struct {
	t   *testing.T
	api *rlqsapi.API
	srv *server.Server
	ln  *pipenet.Listener
	cl  rlqs.RateLimitQuotaServiceClient // at address
}

const address = "192.0.2.1:1"

// client returns a client at an address.
func (r *rig) client(from string) (rlqs.RateLimitQuotaServiceClient, *grpc.ClientConn) {
	conn, err := grpc.NewClient("passthrough:memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			client, server := net.Pipe()
			return client, r.ln.Connect(ctx, testrig.From(server, from))
		}))
	if err != nil {
		r.t.Fatal(err)
	}
	return rlqs.NewRateLimitQuotaServiceClient(conn), conn
}

func run(t *testing.T, cfg rlqsapi.Config, rules []config.Rule, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.New(server.Config{Rules: &config.Rules{Rules: rules}})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, api: rlqsapi.New(srv, cfg), srv: srv, ln: pipenet.Listen()}
		g := grpc.NewServer()
		r.api.Register(g)
		go g.Serve(r.ln)
		var conn *grpc.ClientConn
		r.cl, conn = r.client(address)
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
	t    *testing.T
	end  func()
	got  chan *rlqs.RateLimitQuotaResponse
	over error // of the stream, once got is closed
}

func (r *rig) proxy() *proxy {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(r.t.Context(), "authorization", "Bearer a-secret-of-16-bytes"))
	s, err := r.cl.StreamRateLimitQuotas(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	p := &proxy{RateLimitQuotaService_StreamRateLimitQuotasClient: s, t: r.t, got: make(chan *rlqs.RateLimitQuotaResponse, 1000)}
	go func() {
		defer close(p.got)
		for {
			resp, err := s.Recv()
			if err != nil {
				p.over = err
				return
			}
			p.got <- resp
		}
	}()
	p.end = func() { cancel(); synctest.Wait() }
	return p
}

// wait waits for the end of the stream.
func (p *proxy) wait() error {
	for range p.got {
	}
	return p.over
}

// answers returns what has come.
func (p *proxy) answers() (all []*rlqs.RateLimitQuotaResponse_BucketAction) {
	synctest.Wait()
	for {
		select {
		case resp := <-p.got:
			if resp == nil {
				return all
			}
			all = append(all, resp.GetBucketAction()...)
		default:
			return all
		}
	}
}

// report sends the use of the bucket {user: name} since the last report, and returns the
// actions that are the answer, if there is one at once.
func (p *proxy) report(domain, name string, allowed, denied uint64, elapsed time.Duration) []*rlqs.RateLimitQuotaResponse_BucketAction {
	p.t.Helper()
	p.answers()
	if err := p.Send(&rlqs.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId:    &rlqs.BucketId{Bucket: map[string]string{"user": name, "a": "b|"}},
		TimeElapsed: durationpb.New(elapsed), NumRequestsAllowed: allowed, NumRequestsDenied: denied,
	}}}); err != nil {
		p.t.Fatal(err)
	}
	return p.answers()
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

// The buckets of a rule for all its keys share its rate, also those of one proxy.
func TestBucketsShareARule(t *testing.T) {
	rules := slices.Clone(perKey)
	rules[0].Per = config.PerRule
	run(t, rlqsapi.Config{}, rules, func(r *rig) {
		time.Sleep(ttl)
		p, other := r.proxy(), r.proxy()
		var got [3]float64
		for range 4 {
			got = [3]float64{p.rate("shop", "x", 0, 4000), p.rate("shop", "y", 0, 4000), other.rate("shop", "x", 0, 200)}
			time.Sleep(time.Second)
		}
		if math.Abs(got[0]-400) > 8 || got[1] != got[0] || math.Abs(got[2]-200) > 8 {
			t.Errorf("two buckets that want more, and one that wants 200, have %v of 1000", got)
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

// A proxy that has used an assignment of another process goes on with it until its next report.
func TestAfterAStart(t *testing.T) {
	run(t, rlqsapi.Config{}, shop(1000, 1000), func(r *rig) {
		old := r.proxy()
		if got := old.report("shop", "x", 4000, 6000, 5*time.Second); got != nil {
			t.Errorf("a proxy that has used 800 a second gets %v", got)
		}
		fresh := r.proxy()
		if got := fresh.rate("shop", "x", 0, 1000); got != 100 {
			t.Errorf("a new proxy gets %v: want half of what is free", got)
		}
		time.Sleep(5 * time.Second)
		got := old.report("shop", "x", 4000, 6000, 5*time.Second)
		b := got[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket()
		if n := b.GetTokensPerFill().GetValue(); n != 500 {
			t.Errorf("then it gets %d: want half", n)
		}
		if tokens := b.GetMaxTokens(); tokens != 50 {
			t.Errorf("it starts again with %d tokens: want those that come in 100 ms", tokens)
		}
		fresh.end()
	})
}

// Proxies use a part of the limit each after their assignments have ended. At a server that knows none of them, they have their shares with
// their second reports: Envoy rounds the time between two reports down to whole seconds, so its 5 s may be 4.
func TestWholeSecondsOfReports(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		proxies := []*proxy{r.proxy(), r.proxy(), r.proxy()}
		for i, p := range proxies {
			if got := p.report("shop", "x", 1650, 5000, []time.Duration{4, 4, 5}[i]*time.Second); len(got) > 0 {
				t.Errorf("the first report of proxy %d has the answer %v", i, got)
			}
		}
		time.Sleep(5 * time.Second)
		for i, p := range proxies {
			if got := p.rate("shop", "x", 1650, 5000); got < 325 {
				t.Errorf("proxy %d has %v of 1000", i, got)
			}
		}
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
	identify := func(ctx context.Context) (*token.Session, error) {
		secret, _ := token.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization")[0])
		s := guard.Identify(secret)
		if !s.Known() {
			return nil, status.Error(codes.Unauthenticated, "unknown")
		}
		return s, nil
	}
	use(`tokens: [{name: a, token: a-secret-of-16-bytes, keys: ["shop|a=b%7C|user=?"]}]`)
	run(t, rlqsapi.Config{MaxKey: 100, MaxBuckets: 4, Identify: identify}, perKey, func(r *rig) {
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
		}{{"", "x", codes.InvalidArgument}, {strings.Repeat("s", 101), "x", codes.InvalidArgument}, {"shop", "x", codes.Unauthenticated}} {
			if c.want == codes.Unauthenticated {
				use("tokens: []")
			}
			p := r.proxy()
			if err := p.Send(&rlqs.RateLimitQuotaUsageReports{Domain: c.domain, BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{{
				BucketId: &rlqs.BucketId{Bucket: map[string]string{"user": c.name, "a": "b|"}}}}}); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			if err := p.wait(); status.Code(err) != c.want {
				t.Errorf("domain %q, user %q: %v", c.domain, c.name, err)
			}
		}
		guard.Use(nil)
		r.api.Close()
		if err := r.proxy().wait(); status.Code(err) != codes.Unavailable {
			t.Errorf("after Close: %v", err)
		}
	})
}

// One address has half of the buckets. Those whose assignment is over make room.
func TestBucketsAreBounded(t *testing.T) {
	run(t, rlqsapi.Config{MaxBuckets: 6}, perKey, func(r *rig) {
		time.Sleep(ttl)
		// answered has one proxy for each bucket: one that gets no answer still waits for it.
		answered := func(cl rlqs.RateLimitQuotaServiceClient, names ...string) (n int) {
			for _, name := range names {
				at := *r
				at.cl = cl
				p := at.proxy()
				defer p.end()
				if p.rate("shop", name, 1, 0) != -1 {
					n++
				}
			}
			return n
		}
		other, conn := r.client("192.0.2.2:1")
		defer conn.Close()
		another, conn := r.client("192.0.2.3:1")
		defer conn.Close()
		if n := answered(r.cl, "a", "b", "c", "d", "e"); n != 3 {
			t.Errorf("one address has %d buckets of 6: want 3", n)
		}
		if n := answered(other, "a", "b", "c", "d"); n != 3 {
			t.Errorf("another one has %d: want 3", n)
		}
		if n := answered(another, "a"); n != 0 {
			t.Error("a seventh bucket has an assignment")
		}
		if got := r.api.Stats(); got.Buckets != 6 || got.Refused != 4 {
			t.Errorf("%+v", got)
		}
		time.Sleep(ttl + time.Second)
		if got := r.api.Stats(); got.Buckets != 0 {
			t.Errorf("when all assignments are over: %+v", got)
		}
		if n := answered(another, "a", "b"); n != 2 {
			t.Errorf("when the assignments of others are over, %d of 2 reports are answered", n)
		}
		if got := r.api.Stats(); got.Buckets != 2 {
			t.Errorf("%+v", got)
		}
	})
}
