package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/keyed"
	"github.com/weir-go/weir/rate"
)

func TestValidate(t *testing.T) {
	rule := once(t, "one")
	for _, tt := range []struct {
		cfg  grpclimit.Config
		want string
	}{
		{grpclimit.Config{}, ""},
		{grpclimit.Config{Rules: []grpclimit.Rule{rule, rule}}, `grpclimit: Rules[1].Name = "one": another rule has that name`},
		{grpclimit.Config{Rules: []grpclimit.Rule{{}}}, "grpclimit: Rules[0]: is empty: PerKey and Overall make rules"},
		{grpclimit.Config{Limiter: fixed(t, 1), PerClass: grpclimit.Auto}, "grpclimit: PerClass: must be nil, since Limiter is not"},
		{grpclimit.Config{RetryJitter: -1}, "grpclimit: RetryJitter = -1ns: must be >= 0"},
		{grpclimit.Config{Exempt: []string{"Health"}}, `grpclimit: Exempt[0] = "Health": must begin with a slash`},
		{grpclimit.Config{Criticality: "grpc-x"}, `grpclimit: Criticality = "grpc-x": must be a name of metadata`},
		{grpclimit.Config{Criticality: "X-Criticality"}, ""},
		{grpclimit.Config{Criticality: "a b"}, `grpclimit: Criticality = "a b": must be a name of metadata`},
		{grpclimit.Config{Criticality: "x-bin"}, `grpclimit: Criticality = "x-bin": must be a name of metadata`},
	} {
		i, err := grpclimit.New(tt.cfg)
		if got := fmt.Sprint(err); tt.want != "" && got != tt.want || tt.want == "" && err != nil || (err == nil) != (i != nil) {
			t.Errorf("%+v: %v, want %q", tt.cfg, err, tt.want)
		}
	}
}

// What a real client gets to know, by reason.
func TestRefusal(t *testing.T) {
	rejection := func(why weir.Reason, d time.Duration) error { return &weir.Rejection{Reason: why, RetryAfter: d} }
	const ms = time.Millisecond
	for _, tt := range []struct {
		err  error
		want told
	}{
		{rejection(weir.OverRate, 1500*ms), told{codes.ResourceExhausted, "", 1500 * ms, "1500", "over_rate"}},
		{rejection(weir.OverRate, 1), told{codes.ResourceExhausted, "", 1, "1", "over_rate"}},
		{rejection(weir.OverRate, weir.Never), told{codes.ResourceExhausted, "", -1, "-1", "over_rate"}},
		{rejection(weir.OverBurst, weir.Never), told{codes.ResourceExhausted, "", -1, "-1", "over_burst"}},
		{rejection(weir.OverLimit, 10*ms), told{codes.Unavailable, "-", 10 * ms, "10", "over_limit"}},
		{rejection(weir.QueueFull, 10*ms+1), told{codes.Unavailable, "-", 10*ms + 1, "11", "queue_full"}},
		{rejection(weir.Overdue, time.Second), told{codes.Unavailable, "-", time.Second, "1000", "overdue"}},
		{rejection(weir.Throttled, 1000*time.Hour), told{codes.Unavailable, "-", 1000 * time.Hour, "2147483647", "throttled"}},
		{rejection(weir.Recovering, time.Minute), told{codes.Unavailable, "-", time.Minute, "60000", "recovering"}},
		{rejection(weir.Closed, weir.Never), told{codes.Unavailable, "-", -1, "", "closed"}},
		{rejection(weir.TooLate, time.Second), told{codes.Unavailable, "-", -1, "", "too_late"}},
		{rejection(99, time.Second), told{codes.Unavailable, "-", time.Second, "1000", "unknown"}},
		{fmt.Errorf("wrapped: %w", rejection(weir.OverLimit, 10*ms)), told{codes.Unavailable, "-", 10 * ms, "10", "over_limit"}},
		{context.DeadlineExceeded, told{codes.DeadlineExceeded, "-", -1, "", "timeout"}},
		{context.Canceled, told{codes.Canceled, "-", -1, "", "client_gone"}},
		{errors.New("else"), told{codes.Internal, "-", -1, "", ""}},
		{status.Error(codes.PermissionDenied, "else"), told{codes.PermissionDenied, "-", -1, "", ""}},
	} {
		var seen error
		see := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			resp, err := next(ctx, req)
			seen = err
			return resp, err
		}
		addr := serve(t, &service{}, interceptor(t, grpclimit.Config{Limiter: refuse{tt.err}}), grpc.ChainUnaryInterceptor(see))
		_, c := dial(t, addr)
		if got, err := ask(t.Context(), t, c); got != tt.want {
			t.Errorf("%v: told %+v, want %+v (%v)", tt.err, got, tt.want, err)
		}
		if !errors.Is(seen, tt.err) || !strings.HasPrefix(seen.Error(), "rpc error: code = ") {
			t.Errorf("%v: an outer interceptor sees %v", tt.err, seen)
		}
		// A handler that asks a limiter itself says the same.
		_, c = dial(t, serve(t, &service{empty: func(ctx context.Context) error { return grpclimit.Reject(ctx, tt.err) }}, nil))
		if got, _ := ask(t.Context(), t, c); got != tt.want {
			t.Errorf("%v: Reject tells %+v, want %+v", tt.err, got, tt.want)
		}
		// And so does a stream.
		_, c = dial(t, addr)
		stream, err := c.FullDuplexCall(t.Context())
		if err == nil {
			_, err = stream.Recv()
		}
		if got := read(t, err, stream.Trailer()); got != tt.want {
			t.Errorf("%v: a stream is told %+v, want %+v", tt.err, got, tt.want)
		}
	}
}

// An unknown wait is spread over a second; the jitter is added to a known one.
func TestRefusalJitter(t *testing.T) {
	spread := func(cfg grpclimit.Config) (least, most time.Duration) {
		i := interceptor(t, cfg)
		least = time.Hour
		for range 300 {
			_, err := i.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: emptyCall}, nil)
			d := read(t, err, nil).retry
			least, most = min(least, d), max(most, d)
		}
		return least, most
	}
	const s, ms = time.Second, time.Millisecond
	unknown := refuse{weir.Reject(weir.QueueFull, 0)}
	if least, most := spread(grpclimit.Config{Limiter: unknown}); least < s || most >= 2*s || most-least < s*8/10 {
		t.Errorf("told to wait %v to %v", least, most)
	}
	known := refuse{weir.Reject(weir.QueueFull, s)}
	if least, most := spread(grpclimit.Config{Limiter: known, RetryJitter: 100 * ms}); least < s || most >= s+100*ms || most-least < 80*ms {
		t.Errorf("told to wait %v to %v", least, most)
	}
}

// A rule that denies is named, and how long it takes until it allows. The rules
// before it get their tokens back.
func TestRules(t *testing.T) {
	first := rate.NewLimiter(rate.Every(time.Hour), 10)
	i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{grpclimit.Overall("first", first), once(t, "second")}})
	_, c := dial(t, serve(t, &service{}, i))
	if got, _ := ask(t.Context(), t, c); got.code != codes.OK {
		t.Fatal(got)
	}
	got, _ := ask(t.Context(), t, c)
	if got.code != codes.ResourceExhausted || got.rule != "second" || got.retry < time.Hour*9/10 || got.retry > time.Hour*5/4 {
		t.Errorf("told %+v", got)
	}
	if tokens := first.Tokens(); tokens < 9 || tokens > 9.1 {
		t.Errorf("the first rule has %v tokens: want 9", tokens)
	}
	s := i.Stats()
	if r := s.Rules[1]; r.Allowed != 1 || r.Denied != 1 || len(s.Classes) != 1 || s.Classes[0].Class != "" || s.Classes[0].Limiter != nil {
		t.Errorf("%+v: want one class for all, without a limit", s)
	}
}

// A client with as many calls in flight as it may have gets no more, other clients do, and the
// units come back when the handlers end: of streams, too.
func TestCallsInFlightPerClient(t *testing.T) {
	lim, err := keyed.NewInflight[string](2, keyed.Config{})
	testrig.Must(t, err)
	i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{grpclimit.PerKey("in-flight", lim, grpclimit.Metadata("x-client"))}})
	entered, finish := make(chan bool), make(chan bool)
	wait := func(context.Context) error { entered <- true; <-finish; return nil }
	_, c := dial(t, serve(t, &service{
		empty:  wait,
		duplex: func(s pb.TestService_FullDuplexCallServer) error { return wait(s.Context()) },
	}, i))
	as := func(client string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "x-client", client)
	}
	stream, err := c.FullDuplexCall(as("a"))
	testrig.Must(t, err)
	<-entered
	done := make(chan told)
	call := func(client string) {
		got, _ := ask(as(client), t, c)
		done <- got
	}
	go call("a")
	<-entered
	got, _ := ask(as("a"), t, c)
	if got.code != codes.ResourceExhausted || got.rule != "in-flight" || got.reason != "over_limit" || got.retry < time.Second {
		t.Errorf("told %+v: want a quota", got)
	}
	go call("b")
	<-entered
	if s := lim.Stats(); s.Keys != 2 || s.Units != 3 || s.Denied != 1 {
		t.Errorf("%+v", s)
	}
	for range 3 {
		finish <- true
	}
	for range 2 {
		if got := <-done; got.code != codes.OK {
			t.Error(got)
		}
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Error(err)
	}
	if s := lim.Stats(); s.Units != 0 {
		t.Errorf("%d units are held after the calls", s.Units)
	}
}

func TestRuleMethods(t *testing.T) {
	i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{
		once(t, "waits").Wait(time.Minute),
		once(t, "shadow").Shadow(),
		once(t, "free").Cost(func(grpclimit.Request) int { return 0 }),
	}})
	_, c := dial(t, serve(t, &service{}, i))
	if got, err := ask(t.Context(), t, c); err != nil {
		t.Fatal(got)
	}
	got, _ := ask(t.Context(), t, c) // an hour is too long to wait
	if got.code != codes.ResourceExhausted || got.rule != "waits" {
		t.Errorf("told %+v", got)
	}
	i = interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{
		grpclimit.Overall("waits", rate.NewLimiter(rate.Every(time.Millisecond), 1)).Wait(time.Minute), once(t, "shadow").Shadow(),
	}})
	_, c = dial(t, serve(t, &service{}, i))
	for range 5 {
		if got, err := ask(t.Context(), t, c); err != nil {
			t.Errorf("told %+v", got)
		}
	}
	if s := i.Stats(); s.Rules[0].Allowed != 5 || s.Rules[1].Shadowed != 4 {
		t.Errorf("%+v", s.Rules)
	}
}

// The true cost of a call is told later.
func TestUse(t *testing.T) {
	lim := rate.NewLimiter(rate.Every(time.Hour), 10)
	cost, found := 4, false
	use := func(ctx context.Context) error { found = grpclimit.Use(ctx, cost); return nil }
	i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{grpclimit.Overall("one", lim)}})
	_, c := dial(t, serve(t, &service{empty: use}, i))
	for range 2 {
		if got, err := ask(t.Context(), t, c); err != nil || !found {
			t.Fatal(got, found)
		}
	}
	if tokens := lim.Tokens(); tokens < 2 || tokens > 2.1 {
		t.Errorf("%v tokens: want 2", tokens)
	}
	cost = 0
	_, _ = ask(t.Context(), t, c)
	if tokens := lim.Tokens(); tokens < 2 || tokens > 2.1 {
		t.Errorf("%v tokens: want 2", tokens)
	}
	_ = i.Stream()(nil, &bareStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: duplex}, func(_ any, ss grpc.ServerStream) error {
		found = grpclimit.Use(ss.Context(), 2)
		return nil
	})
	if tokens := lim.Tokens(); !found || tokens < 0 || tokens > 0.1 {
		t.Errorf("after a stream %v tokens: want none", tokens)
	}
	if grpclimit.Use(t.Context(), 1) {
		t.Error("found an Interceptor where there is none")
	}
	defer func() {
		if recover() == nil {
			t.Error("a negative cost does not panic")
		}
	}()
	grpclimit.Use(t.Context(), -1)
}

// Use after the handler has returned has no effect: the visit may belong to another
// call.
func TestUseTooLate(t *testing.T) {
	lim := rate.NewLimiter(rate.Every(time.Hour), 100)
	i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{grpclimit.Overall("one", lim)}})
	info := &grpc.UnaryServerInfo{FullMethod: emptyCall}
	var stale context.Context
	for range 10 { // a pool need not give back what it got
		_, _ = i.Unary()(t.Context(), nil, info, func(ctx context.Context, _ any) (any, error) {
			if stale != nil && grpclimit.Use(stale, 50) {
				t.Error("used after the handler has returned")
			}
			if !grpclimit.Use(ctx, 1) {
				t.Error("not used while it runs")
			}
			stale = ctx
			return nil, nil
		})
	}
	if grpclimit.Use(stale, 50) {
		t.Error("used after all")
	}
	if tokens := lim.Tokens(); tokens < 90 || tokens > 90.1 {
		t.Errorf("%v tokens: want 90", tokens)
	}
}

func TestKeys(t *testing.T) {
	at := func(addr string, md ...string) grpclimit.Request {
		ctx := metadata.NewIncomingContext(peerAt(t.Context(), addr), metadata.Pairs(md...))
		return grpclimit.Request{Context: ctx, Method: emptyCall}
	}
	for _, tt := range []struct{ addr, want string }{
		{"192.0.2.1:443", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:443", "192.0.2.1"},
		{"[2001:db8:1:2:3:4:5:6]:443", "2001:db8:1:2::"},
		{"[fe80::1%eth0]:443", "fe80::"},
		{"[64:ff9b::192.0.2.1]:443", "192.0.2.1"},
		{"[2002:c000:201::1]:443", "192.0.2.1"},
		{"@", "invalid IP"},
	} {
		if a, ok := grpclimit.Address()(at(tt.addr)); a.String() != tt.want || ok != (tt.addr != "@") {
			t.Errorf("%s: key %v, %v: want %s", tt.addr, a, ok, tt.want)
		}
	}
	if _, ok := grpclimit.Address()(grpclimit.Request{Context: t.Context()}); ok {
		t.Error("an address without a peer")
	}
	key := grpclimit.Metadata("X-Api-Key")
	if k, ok := key(at("@", "x-api-key", "a", "x-api-key", "b")); k != "a" || !ok {
		t.Errorf("key %q, %v", k, ok)
	}
	if k, ok := key(at("@")); k != "" || ok {
		t.Errorf("key %q, %v", k, ok)
	}
	long := strings.Repeat("x", grpclimit.MaxKey)
	if k, ok := key(at("@", "x-api-key", long)); k != long || !ok {
		t.Errorf("%q: want it as it is", k)
	}
	a, _ := key(at("@", "x-api-key", long+"a"))
	if b, ok := key(at("@", "x-api-key", long+"b")); len(b) != 33 || len(a) != 33 || a == b || !ok {
		t.Errorf("%q and %q: want two keys of 33 bytes", a, b)
	}
}

// What a proxy says in metadata counts if the proxy is trusted.
func TestAddressBehind(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct{ peer, name, value, want string }{
		{"10.0.0.1:80", "X-Forwarded-For", "1.1.1.1, 192.0.2.1, 10.0.0.2", "192.0.2.1"},
		{"10.0.0.1:80", "forwarded", `for=1.1.1.1, for="[2001:db8:1:2:3::]:80"`, "2001:db8:1:2::"},
		{"10.0.0.1:80", "x-forwarded-for", "", "10.0.0.1"},
		{"192.0.2.9:80", "x-forwarded-for", "1.1.1.1", "192.0.2.9"},
		{"@", "x-forwarded-for", "1.1.1.1", "invalid IP"},
		{"10.0.0.1:80", "forwarded", `for="192.0.2.1:_x"`, "192.0.2.1"},
	} {
		ctx := metadata.NewIncomingContext(peerAt(t.Context(), tt.peer), metadata.Pairs(tt.name, tt.value))
		a, ok := grpclimit.AddressBehind(tt.name, trusted...)(grpclimit.Request{Context: ctx})
		if a.String() != tt.want || ok != a.IsValid() {
			t.Errorf("%s, %s: %s: %v %v: want %s", tt.peer, tt.name, tt.value, a, ok, tt.want)
		}
	}
}

// bare is an address of another kind of connection, as of a gRPC server below net/http.
type bare string

func (bare) Network() string  { return "tcp" }
func (b bare) String() string { return string(b) }

// A peer at a Unix socket has no address: it is trusted as this machine is, or it is one client.
func TestUnixPeer(t *testing.T) {
	machine := netip.MustParsePrefix("127.0.0.0/8")
	unix := &net.UnixAddr{Name: "10.0.0.1:80", Net: "unix"} // as a client may call its socket
	below := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/app.sock", Net: "unix"})
	for rule, ctx := range map[string]context.Context{
		"grpc-go":  peer.NewContext(t.Context(), &peer.Peer{Addr: unix}),
		"net/http": peer.NewContext(below, &peer.Peer{Addr: bare(unix.Name)}),
	} {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-forwarded-for", "192.0.2.1"))
		for _, tt := range []struct {
			trusted netip.Prefix
			want    string
		}{
			{machine, "192.0.2.1"},
			{netip.MustParsePrefix("10.0.0.0/8"), "invalid IP"},
		} {
			a, ok := grpclimit.AddressBehind("x-forwarded-for", tt.trusted)(grpclimit.Request{Context: ctx})
			if a.String() != tt.want || ok != a.IsValid() {
				t.Errorf("%s, %v is trusted: %v, %v: want %s", rule, tt.trusted, a, ok, tt.want)
			}
		}
	}
	other := peer.NewContext(t.Context(), &peer.Peer{Addr: bare("192.0.2.1:80")})
	if a, ok := grpclimit.Address()(grpclimit.Request{Context: other}); a.String() != "192.0.2.1" || !ok {
		t.Errorf("an address of another kind of connection: %v, %v", a, ok)
	}
}

// Each client has a bucket; those without a key share one.
func TestPerKey(t *testing.T) {
	lim, err := keyed.New[string](gcra.Per(1, time.Hour, 1), keyed.Config{})
	testrig.Must(t, err)
	i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{grpclimit.PerKey("user", lim, grpclimit.Metadata("user"))}})
	_, c := dial(t, serve(t, &service{}, i))
	for n, user := range []string{"a", "b", "", "a", "b", ""} {
		ctx := t.Context()
		if user != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "user", user)
		}
		if got, _ := ask(ctx, t, c); (got.code == codes.OK) != (n < 3) {
			t.Errorf("call %d of %q: %+v", n, user, got)
		}
	}
}

// By default each method has a limit that finds itself; probes need none.
func TestClasses(t *testing.T) {
	i := interceptor(t, grpclimit.Config{PerClass: grpclimit.Auto})
	hs := health.NewServer()
	addr := serve(t, &service{}, i)
	conn, c := dial(t, addr)
	if _, err := ask(t.Context(), t, c); err != nil {
		t.Fatal(err)
	}
	_, _ = c.UnaryCall(t.Context(), &pb.SimpleRequest{}) // Unimplemented
	_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if status.Code(err) != codes.Unimplemented { // it is not registered, so no interceptor sees it
		t.Error(err)
	}
	_, err = i.Unary()(t.Context(), &healthpb.HealthCheckRequest{}, &grpc.UnaryServerInfo{FullMethod: "/grpc.health.v1.Health/Check"},
		func(ctx context.Context, req any) (any, error) {
			return hs.Check(ctx, req.(*healthpb.HealthCheckRequest))
		})
	s := i.Stats()
	if err != nil || s.Exempt != 1 || len(s.Classes) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	for n, want := range []struct {
		class   string
		outcome weir.Outcome
	}{{emptyCall, weir.Success}, {"/grpc.testing.TestService/UnaryCall", weir.Ignored}} {
		if c := s.Classes[n]; c.Class != want.class || c.Limiter == nil || c.Admitted != 1 || c.Outcomes[want.outcome] != 1 {
			t.Errorf("%+v, want %v", c, want)
		}
	}
}

// Streams are one class, whatever their methods, unless Class tells them apart. Auto
// does not limit them, because how long they last says nothing about load.
func TestStreams(t *testing.T) {
	byMethod := func(r grpclimit.Request) string { return r.Method }
	one := func(string) weir.Limiter { return fixed(t, 1) }
	for _, tt := range []struct {
		cfg     grpclimit.Config
		classes int
		let     uint64
	}{
		{grpclimit.Config{}, 1, 600},
		{grpclimit.Config{PerClass: grpclimit.Auto}, 1, 600},
		{grpclimit.Config{PerClass: one}, 1, 1},
		{grpclimit.Config{PerClass: one, Class: byMethod}, 3, 3},
		{grpclimit.Config{Limiter: fixed(t, 2)}, 1, 2},
		{grpclimit.Config{Rules: []grpclimit.Rule{once(t, "one")}}, 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			i, ctx := interceptor(t, tt.cfg), t.Context()
			for n := range 600 {
				go func() {
					info := &grpc.StreamServerInfo{FullMethod: fmt.Sprint("/x.Y/m", n%3)}
					_ = i.Stream()(nil, &bareStream{ctx: ctx}, info, func(any, grpc.ServerStream) error {
						time.Sleep(time.Hour)
						return nil
					})
				}()
			}
			time.Sleep(time.Minute)
			classes, let := i.Stats().Classes, uint64(0)
			for _, c := range classes {
				let += c.Admitted
			}
			if len(classes) != tt.classes || let != tt.let {
				t.Errorf("%d let in, %+v: want %d", let, classes, tt.let)
			}
			if tt.cfg.PerClass != nil && tt.cfg.Class == nil && classes[0].Class != grpclimit.Streams {
				t.Errorf("%+v", classes[0])
			}
			_, _ = i.Unary()(ctx, nil, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(context.Context, any) (any, error) { return nil, nil })
			for _, c := range i.Stats().Classes {
				if c.Class == emptyCall && c.Limiter == nil {
					t.Errorf("%+v: want a limit for unary calls", c)
				}
			}
			time.Sleep(time.Hour)
		})
	}
}

func TestExempt(t *testing.T) {
	closed := refuse{weir.Reject(weir.Closed, 0)}
	for _, tt := range []struct {
		exempt []string
		method string
		want   bool
	}{
		{nil, "/grpc.health.v1.Health/Watch", true},
		{nil, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", true},
		{nil, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", true},
		{nil, "/grpc.health.v1.Healthy/Watch", false},
		{nil, emptyCall, false},
		{[]string{}, "/grpc.health.v1.Health/Check", false},
		{[]string{emptyCall}, emptyCall, true},
		{[]string{emptyCall}, emptyCall + "s", false},
		{[]string{"/grpc.testing.TestService/"}, emptyCall, true},
	} {
		i := interceptor(t, grpclimit.Config{Limiter: closed, Exempt: tt.exempt})
		ran := 0
		_, _ = i.Unary()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: tt.method}, func(context.Context, any) (any, error) { ran++; return nil, nil })
		_ = i.Stream()(nil, &bareStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: tt.method}, func(any, grpc.ServerStream) error { ran++; return nil })
		if got := ran == 2 && i.Stats().Exempt == 2; got != tt.want || ran == 1 {
			t.Errorf("%v, %s: %v, want %v", tt.exempt, tt.method, got, tt.want)
		}
	}
}

// Of what handlers return, signs of overload alone speak against the limit.
func TestOutcomes(t *testing.T) {
	over, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want weir.Outcome
	}{
		{t.Context(), nil, weir.Success},
		{t.Context(), status.Error(codes.ResourceExhausted, "your mailbox is full"), weir.Ignored},
		{t.Context(), grpclimit.Reject(t.Context(), weir.Reject(weir.OverRate, 0)), weir.Ignored},
		{t.Context(), weir.Reject(weir.OverRate, 0), weir.Ignored},
		{t.Context(), weir.Reject(weir.OverBurst, 0), weir.Ignored},
		{t.Context(), status.Error(codes.Unavailable, ""), weir.Dropped},
		{t.Context(), fmt.Errorf("asking: %w", status.Error(codes.Unavailable, "")), weir.Dropped},
		{t.Context(), status.Error(codes.DeadlineExceeded, ""), outcome.Late},
		{t.Context(), context.DeadlineExceeded, outcome.Late}, // a server makes a status of it
		{t.Context(), weir.Reject(weir.OverLimit, 0), weir.Dropped},
		{t.Context(), status.Error(codes.Canceled, ""), weir.Ignored},
		{t.Context(), status.Error(codes.NotFound, ""), weir.Ignored},
		{t.Context(), status.Error(codes.Internal, ""), weir.Ignored},
		{t.Context(), errors.New("else"), weir.Ignored},
		// What the client has sent too much of is no sign of overload.
		{t.Context(), status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), weir.Ignored},
		{t.Context(), status.Error(codes.ResourceExhausted, "gRPC message exceeds maximum size 4: 5"), weir.Ignored},
		// The deadline has passed.
		{over, nil, outcome.Late},
		{left, nil, outcome.Gone},
		{left, status.Error(codes.Unavailable, ""), outcome.Gone},
	} {
		i := interceptor(t, grpclimit.Config{Rules: []grpclimit.Rule{grpclimit.Overall("all", rate.NewLimiter(rate.Inf, 1))}})
		_, _ = i.Unary()(tt.ctx, nil, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(context.Context, any) (any, error) { return nil, tt.err })
		_ = i.Stream()(nil, &bareStream{ctx: tt.ctx}, &grpc.StreamServerInfo{FullMethod: emptyCall}, func(any, grpc.ServerStream) error { return tt.err })
		if o := i.Stats().Classes[0].Outcomes; o[tt.want] != 2 {
			t.Errorf("%v, %v: %v, want %v", tt.ctx.Err(), tt.err, o, tt.want)
		}
	}
}

// A call takes as many units of its class as Units returns.
func TestUnits(t *testing.T) {
	i := interceptor(t, grpclimit.Config{
		Limiter: fixed(t, 3),
		Class:   func(r grpclimit.Request) string { return r.Method[:5] },
		Units:   func(r grpclimit.Request) int { return r.Message.(int) },
	})
	_, err := i.Unary()(t.Context(), 2, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(ctx context.Context, _ any) (any, error) {
		_, err := i.Unary()(ctx, 2, &grpc.UnaryServerInfo{FullMethod: emptyCall}, nil)
		if status.Code(err) != codes.Unavailable {
			t.Errorf("two and two: %v", err)
		}
		return i.Unary()(ctx, 1, &grpc.UnaryServerInfo{FullMethod: emptyCall}, func(context.Context, any) (any, error) { return nil, nil })
	})
	if c := i.Stats().Classes; err != nil || len(c) != 1 || c[0].Class != "/grpc" || c[0].Admitted != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Shadow counts, and refuses nothing.
func TestShadow(t *testing.T) {
	lim := fixed(t, 1)
	p, _ := lim.Acquire(t.Context(), 1)
	defer p.Release(weir.Ignored)
	i := interceptor(t, grpclimit.Config{Limiter: lim, Rules: []grpclimit.Rule{once(t, "one")}, Shadow: true})
	_, c := dial(t, serve(t, &service{}, i))
	for range 3 {
		if _, err := ask(t.Context(), t, c); err != nil {
			t.Error(err)
		}
	}
	s := i.Stats()
	if c := s.Classes[0]; s.Rules[0].Shadowed != 2 || c.Shadowed[weir.OverLimit] != 3 || c.Admitted != 3 {
		t.Errorf("%+v", s)
	}
}

// Metadata sets the priority; only trusted peers may use critical_plus.
func TestCriticality(t *testing.T) {
	for _, tt := range []struct {
		says, peer string
		want       weir.Priority
	}{
		{"sheddable", "192.0.2.1:1", weir.Sheddable},
		{" Sheddable_Plus ", "192.0.2.1:1", weir.SheddablePlus},
		{"critical", "192.0.2.1:1", weir.Critical},
		{"critical_plus", "192.0.2.1:1", weir.Critical},
		{"critical_plus", "10.0.0.1:1", weir.CriticalPlus},
		{"critical_plus", "[::ffff:10.0.0.1]:1", weir.CriticalPlus},
		{"critical_plus", "[fe80::1%eth0]:1", weir.CriticalPlus},
		{"critical_plus", "@", weir.CriticalPlus},
		{"vital", "10.0.0.1:1", weir.Critical},
	} {
		var got weir.Priority
		cfg := grpclimit.Config{Criticality: "X-Criticality", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("127.0.0.1/32")}}
		i := interceptor(t, cfg)
		ctx := metadata.NewIncomingContext(peerAt(t.Context(), tt.peer), metadata.Pairs("x-criticality", tt.says))
		_ = i.Stream()(nil, &bareStream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: duplex}, func(_ any, ss grpc.ServerStream) error {
			got = weir.ClassOf(ss.Context()).Priority
			return nil
		})
		if got != tt.want {
			t.Errorf("%q from %s: %v, want %v", tt.says, tt.peer, got, tt.want)
		}
	}
	// Over the wire, and nothing by default.
	var got atomic.Int64
	see := &service{empty: func(ctx context.Context) error { got.Store(int64(weir.ClassOf(ctx).Priority)); return nil }}
	for _, name := range []string{"criticality", ""} {
		_, c := dial(t, serve(t, see, interceptor(t, grpclimit.Config{Criticality: name})))
		if _, err := ask(metadata.AppendToOutgoingContext(t.Context(), "criticality", "sheddable"), t, c); err != nil {
			t.Error(err)
		}
		if want := weir.Sheddable; name == "" && got.Load() != 0 || name != "" && got.Load() != int64(want) {
			t.Errorf("%q: priority %d", name, got.Load())
		}
	}
}

// A call waits in the queue for no longer than its deadline, and holds nothing
// afterwards; a limiter that knows how long work takes does not let it.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := queued(t, 1, 10)
		i := interceptor(t, grpclimit.Config{Limiter: lim})
		info := &grpc.UnaryServerInfo{FullMethod: emptyCall}
		work := func(ctx context.Context, _ any) (any, error) { time.Sleep(time.Second); return nil, nil }
		for range 20 { // it learns
			_, _ = i.Unary()(t.Context(), nil, info, work)
		}
		go func() { _, _ = i.Unary()(t.Context(), nil, info, work) }()
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := i.Unary()(ctx, nil, info, work)
		if status.Code(err) != codes.Unavailable || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("%v after %v: want TooLate at once", err, time.Since(began))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err = i.Unary()(ctx, nil, info, work)
		if status.Code(err) != codes.Canceled || lim.Stats().Waiting != 0 || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%v, %+v", err, lim.Stats())
		}
		time.Sleep(time.Minute)
		if s := lim.Stats(); s.Inflight != 0 || s.Rejected[weir.TooLate] != 1 {
			t.Errorf("%+v", s)
		}
	})
}
