package rlqsapi_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
)

// A quotaServer is a server that is stopped and started.
type quotaServer struct {
	rig
	grpc  *grpc.Server // nil while it is stopped
	saved []byte       // its state file; nil if there is none
}

type source struct{ *bytes.Reader }

func (source) Close() error { return nil }

// start starts the server, which restores its state if it keeps one.
func (s *quotaServer) start(rules []config.Rule, keeps bool) {
	srv, err := server.New(server.Config{Rules: &config.Rules{Rules: rules}})
	if err != nil {
		s.t.Fatal(err)
	}
	switch {
	case !keeps:
	case s.saved == nil:
		srv.First()
	default:
		if _, err := srv.Restore(source{bytes.NewReader(s.saved)}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.srv, s.api, s.ln, s.grpc = srv, rlqsapi.New(srv, rlqsapi.Config{}), pipenet.Listen(), grpc.NewServer()
	s.api.Register(s.grpc)
	go s.grpc.Serve(s.ln)
}

func (s *quotaServer) stop() {
	s.grpc.Stop()
	s.grpc = nil
	synctest.Wait()
}

func (s *quotaServer) save(ended bool) {
	var b bytes.Buffer
	if err := s.srv.Snapshot(&b, ended); err != nil {
		s.t.Fatal(err)
	}
	s.saved = b.Bytes()
}

// A gateway is an Envoy with buckets of several users. As Envoy 1.40 does, it opens a stream that has ended again when its next
// reports are due; reports that cannot be sent are lost, also that of a new bucket.
type gateway struct {
	server *quotaServer
	random *rand.Rand
	from   string
	cut    bool // from the server
	stream *proxy
	to     *grpc.Server // of the stream
	end    func()
	users  []*user // in the order in which they have come
	tick   time.Time
	none   envoytype.RateLimitStrategy_BlanketRule // no_assignment_behavior
	safe   float64                                 // expired_assignment_behavior: a token bucket
}

type user struct {
	name            string
	demand          float64
	next            time.Time
	strategy        *envoytype.RateLimitStrategy
	until           time.Time // the end of the assignment
	tokens          float64
	filled, last    time.Time // last report
	allowed, denied uint64    // since then
	passed, asked   []int     // by the second
}

func (g *gateway) connected() bool { return g.stream != nil && g.to == g.server.grpc && !g.cut }

// report reports users. Usage that has been reported is not reported again.
func (g *gateway) report(users ...*user) {
	now, all := time.Now(), &rlqs.RateLimitQuotaUsageReports{Domain: "shop"}
	for _, u := range users {
		all.BucketQuotaUsages = append(all.BucketQuotaUsages, &rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: &rlqs.BucketId{Bucket: map[string]string{"user": u.name}}, TimeElapsed: durationpb.New((now.Sub(u.last) - time.Duration(g.random.Int64N(2))*time.Millisecond).Truncate(time.Second)), NumRequestsAllowed: u.allowed, NumRequestsDenied: u.denied,
		})
		u.last, u.allowed, u.denied = now, 0, 0
	}
	if g.connected() {
		_ = g.stream.Send(all)
	}
}

// connect opens a stream if it can.
func (g *gateway) connect() {
	if g.stream != nil && !g.connected() {
		g.stream.end()
		g.end()
		g.stream = nil
	}
	if g.stream == nil && g.server.grpc != nil && !g.cut {
		at := g.server.rig
		cl, conn := at.client(g.from)
		at.cl = cl
		g.stream, g.to, g.end = at.proxy(), g.server.grpc, func() { conn.Close() }
	}
}

// step lets requests of an instant be decided.
func (g *gateway) step(second int) {
	now := time.Now()
	if g.connected() {
		for _, a := range g.stream.answers() {
			g.take(g.user(a.GetBucketId().GetBucket()["user"]), a.GetQuotaAssignmentAction())
		}
	}
	if !g.tick.After(now) {
		g.tick = g.tick.Add(reportEvery)
		g.connect()
		g.report(slices.DeleteFunc(slices.Clone(g.users), func(u *user) bool { return u.last.IsZero() })...)
	}
	for _, u := range g.users {
		for ; u.demand > 0 && u.next.Before(now); u.next = u.next.Add(time.Duration(g.random.ExpFloat64() / u.demand * 1e9)) {
			u.asked[second]++
			ok := g.allow(u, now)
			if ok {
				u.allowed++
				u.passed[second]++
			} else {
				u.denied++
			}
			if u.last.IsZero() {
				u.last = now
				g.report(u)
			}
		}
	}
}

// user returns a user; nil if there is none.
func (g *gateway) user(name string) *user {
	i := slices.IndexFunc(g.users, func(u *user) bool { return u.name == name })
	if i < 0 {
		return nil
	}
	return g.users[i]
}

func (g *gateway) take(u *user, a *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction) {
	s := a.GetRateLimitStrategy()
	is, was := s.GetTokenBucket(), u.strategy.GetTokenBucket()
	if is != nil && (was == nil || is.GetMaxTokens() != was.GetMaxTokens() || is.GetTokensPerFill().GetValue() != was.GetTokensPerFill().GetValue()) {
		u.tokens, u.filled = float64(is.GetMaxTokens()), time.Now()
	}
	u.strategy, u.until = s, time.Now().Add(a.GetAssignmentTimeToLive().AsDuration())
}

func (g *gateway) allow(u *user, now time.Time) bool {
	rate, most := 0.0, 0.0
	switch b := u.strategy.GetTokenBucket(); {
	case u.strategy == nil:
		return g.none == envoytype.RateLimitStrategy_ALLOW_ALL
	case u.until.Before(now):
		rate, most = g.safe, 3
	case b == nil:
		return u.strategy.GetBlanketRule() == envoytype.RateLimitStrategy_ALLOW_ALL
	default:
		rate, most = float64(b.GetTokensPerFill().GetValue())/float64(b.GetFillInterval().GetSeconds()), float64(b.GetMaxTokens())
	}
	u.tokens = min(u.tokens+rate*now.Sub(u.filled).Seconds(), most)
	if u.filled = now; u.tokens < 1 {
		return false
	}
	u.tokens--
	return true
}

// A fleetOf is gateways before a server.
type fleetOf struct {
	*quotaServer
	gateways []*gateway
	seconds  int
}

// loads sets the demand of a user at gateways.
func (f *fleetOf) loads(name string, demands ...float64) {
	for i, demand := range demands {
		g := f.gateways[i]
		u := g.user(name)
		if u == nil {
			u = &user{name: name, passed: make([]int, 400), asked: make([]int, 400)}
			g.users = append(g.users, u)
		}
		u.demand, u.next = demand, time.Now()
	}
}

func (f *fleetOf) run(seconds int) {
	for range seconds {
		for range 100 {
			time.Sleep(10 * time.Millisecond)
			for _, g := range f.gateways {
				g.step(f.seconds)
			}
		}
		f.seconds++
	}
}

// passes returns which part of the requests of a user pass from a second on.
func (f *fleetOf) passes(name string, from int) float64 {
	passed, asked := 0, 0
	for _, g := range f.gateways {
		if u := g.user(name); u != nil {
			for s := from; s < f.seconds; s++ {
				passed, asked = passed+u.passed[s], asked+u.asked[s]
			}
		}
	}
	return float64(passed) / float64(asked)
}

// most returns how many requests of a user pass in ten seconds at most, from a second on.
func (f *fleetOf) most(name string, from int) (most int) {
	for at := from; at+10 <= f.seconds; at++ {
		n := 0
		for _, g := range f.gateways {
			if u := g.user(name); u != nil {
				for s := at; s < at+10; s++ {
					n += u.passed[s]
				}
			}
		}
		most = max(most, n)
	}
	return most
}

func (f *fleetOf) close() {
	for _, g := range f.gateways {
		if g.stream != nil {
			g.stream.end()
			g.end()
		}
	}
	f.stop()
}

// A restart is a case of TestRestart.
type restart struct {
	name    string
	keeps   bool // a state file
	kill    bool // instead of SIGTERM
	down    int  // seconds
	shared  bool // the gateways have one address
	away    int  // seconds for which the last gateway is cut off from the stop on
	allow   bool // no_assignment_behavior: ALLOW_ALL
	rate    int  // of the rules after the restart; 0: as before
	exceeds float64
	after   int // seconds after the start from which the requests are counted; 0: 2
}

// Over a restart, requests below the limit pass, whatever the proxies have used. Requests beyond the limit pass within a bound.
func TestRestart(t *testing.T) {
	const limit = 100
	for _, c := range []restart{
		{name: "SIGTERM with state", keeps: true, down: 1, exceeds: 0.05},
		{name: "SIGTERM with state, one address", keeps: true, down: 1, shared: true, exceeds: 0.05},
		{name: "SIGTERM with state, one proxy comes back late", keeps: true, down: 1, away: 17, exceeds: 0.05},
		{name: "SIGTERM with state, ALLOW_ALL", keeps: true, down: 1, allow: true, exceeds: 0.05},
		{name: "SIGTERM with state, a new limit", keeps: true, down: 1, rate: 150, exceeds: 0.55},
		{name: "SIGTERM with state, longer than assignments last", keeps: true, down: 45, after: 7, exceeds: 0.05},
		{name: "SIGTERM", down: 1, exceeds: 0.25},
		{name: "SIGTERM, one address", down: 1, shared: true, exceeds: 0.25},
		{name: "SIGTERM, one proxy comes back late", down: 1, away: 17, exceeds: 0.5},
		{name: "kill -9", kill: true, down: 2, exceeds: 0.25},
		{name: "kill -9 with state", keeps: true, kill: true, down: 2, exceeds: 0.1},
		{name: "kill -9 with state, one address", keeps: true, kill: true, down: 2, shared: true, exceeds: 0.1},
		{name: "kill -9 with state, one proxy comes back late", keeps: true, kill: true, down: 2, away: 17, exceeds: 0.1},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(c.name, "/", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.run(t, seed, limit) })
			})
		}
	}
}

func (c *restart) run(t *testing.T, seed uint64, limit int) {
	f := &fleetOf{quotaServer: &quotaServer{rig: rig{t: t}}}
	f.start(shop(limit, limit), c.keeps)
	random := rand.New(rand.NewPCG(seed, 7))
	for i := range 3 {
		g := &gateway{server: f.quotaServer, random: random, from: address, safe: float64(limit) / 3,
			tick: time.Now().Add(time.Duration(random.Int64N(int64(reportEvery))))}
		if !c.shared {
			g.from = fmt.Sprintf("192.0.2.%d:1", i+1)
		}
		if c.allow {
			g.none = envoytype.RateLimitStrategy_ALLOW_ALL
		} else {
			g.none = envoytype.RateLimitStrategy_DENY_ALL
		}
		f.gateways = append(f.gateways, g)
	}
	f.loads("half", 25, 15, 10)
	f.loads("one", 0, 50, 0)
	f.loads("paused", 50, 0, 0)
	f.loads("many", 20, 90, 90)
	f.run(45)
	if c.kill && c.keeps {
		f.save(false)
	}
	f.run(2)
	f.loads("paused", 0, 0, 0)
	f.run(1)
	f.gateways[2].cut = c.away > 0
	stopped := f.seconds
	if f.stop(); c.keeps && !c.kill {
		f.save(true)
	}
	f.run(c.down)
	rate := limit
	if c.rate > 0 {
		rate = c.rate
	}
	f.start(shop(rate, limit), c.keeps)
	f.run(1)
	f.loads("paused", 50, 0, 0)
	f.loads("tenth", 10, 0, 0)
	f.run(1)
	from := f.seconds + max(c.after-2, 0)
	if c.away > 0 {
		f.run(c.away - c.down - 2)
		f.gateways[2].cut = false
	}
	f.run(45)
	for _, name := range []string{"half", "one", "paused", "tenth"} {
		since := from
		if name == "tenth" && !c.allow { // its proxy opens its stream with its next reports
			since += 4
		}
		if got := f.passes(name, since); got < 0.99 {
			t.Errorf("%s: %.2f %% of the requests pass", name, 100*got)
		}
	}
	got := f.most("many", stopped)
	t.Logf("at most %d requests of %d pass in 10 s, %.1f %% in all", got, 10*limit, 100*f.passes("many", from))
	if most := float64(10*limit)*(1+c.exceeds) + float64(limit); float64(got) > most {
		t.Errorf("%d requests pass in 10 s: want %.0f at most", got, most)
	}
	if got := f.passes("many", from) * 200 / float64(rate); got < 0.9 || math.IsNaN(got) {
		t.Errorf("%.1f %% of the limit is used", 100*got)
	}
	f.close()
}
