package weirapi_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/weirapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

const rules = `
rules:
- {name: jobs, glob: "job*", concurrency: {limit: 2, ttl: 10s, queue: 5}}
- {name: all, glob: "*", rate: 5/s, burst: 5}
`

func newServer(t *testing.T) *server.Server {
	r, err := config.Parse("rules.yaml", []byte(rules))
	testrig.Must(t, err)
	s, err := server.New(server.Config{Rules: r, MaxLimit: 10, MaxQueue: 10})
	testrig.Must(t, err)
	return s
}

// dial serves a Decider until the test ends, and returns a client.
func dial(t *testing.T, d decider.Decider, cfg weirapi.Config) weirv1.WeirServiceClient {
	s, network := grpc.NewServer(), testrig.Listen()
	weirapi.New(d, cfg).Register(s)
	go func() { _ = s.Serve(network) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return network.Dial(ctx, "", "") }))
	testrig.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return weirv1.NewWeirServiceClient(conn)
}

func of[T any](v T) *T { return &v }

// expect checks the code and the text of an error.
func expect(t *testing.T, what string, err error, code codes.Code, text string) {
	t.Helper()
	if s := status.Convert(err); s.Code() != code || text != "" && s.Message() != text {
		t.Errorf("%s: %v: want %v: %s", what, err, code, text)
	}
}

// Invalid requests are refused, and take nothing.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := dial(t, newServer(t), weirapi.Config{MaxKey: 10, MaxLimit: 10}), t.Context()
		_, err := c.Decide(ctx, &weirv1.DecideRequest{Key: " "})
		expect(t, "no key", err, codes.InvalidArgument, "the key is empty")
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "12345678901"})
		expect(t, "a long key", err, codes.InvalidArgument, "the key is too long")
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "a", N: of(int32(-1))})
		expect(t, "a cost", err, codes.InvalidArgument, "n = -1: must be >= 0")
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "a", MaxRequests: of(int32(11))})
		expect(t, "a limit", err, codes.InvalidArgument, "max_requests = 11: must be from 1 to 10")
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "job"})
		expect(t, "no rate", err, codes.NotFound, decider.ErrNoRate.Error()+": AcquireLease")
		_, err = c.Batch(ctx, &weirv1.BatchRequest{Requests: []*weirv1.BatchItem{{Key: "a"}, {Key: ""}}})
		expect(t, "a key of a batch", err, codes.InvalidArgument, "the key is empty")
		_, err = c.Batch(ctx, &weirv1.BatchRequest{Requests: make([]*weirv1.BatchItem, 10_001)})
		expect(t, "a large batch", err, codes.InvalidArgument, "a batch has at most 10000 requests")
		_, err = c.Batch(ctx, &weirv1.BatchRequest{All: true, Requests: []*weirv1.BatchItem{{Key: "a", AtMost: true}}})
		expect(t, "a part of all", err, codes.InvalidArgument, "all and at_most exclude each other")
		waited, err := c.Wait(ctx, &weirv1.WaitRequest{Key: "a", MaxRequestsInQueue: of(int32(1))})
		testrig.Must(t, err)
		_, err = waited.Recv()
		expect(t, "a queue", err, codes.PermissionDenied, "max_requests_in_queue is disabled")
		waited, err = c.Wait(ctx, &weirv1.WaitRequest{Key: "a", TimeoutMs: of(int64(-1))})
		testrig.Must(t, err)
		_, err = waited.Recv()
		expect(t, "a time-out", err, codes.InvalidArgument, "timeout_ms = -1: must be >= 0")
		_, err = c.Settle(ctx, &weirv1.SettleRequest{Key: "a", RequestId: "x"})
		expect(t, "no grant", err, codes.NotFound, decider.ErrNoGrant.Error())
		_, err = c.AcquireLease(ctx, &weirv1.AcquireLeaseRequest{Key: "a"})
		expect(t, "no rule with a concurrency", err, codes.NotFound, decider.ErrNoLeasing.Error())
		_, err = c.AcquireLease(ctx, &weirv1.AcquireLeaseRequest{Key: "job", N: of(int32(0))})
		expect(t, "no units", err, codes.InvalidArgument, "n = 0: must be >= 1")
		_, err = c.RenewLease(ctx, &weirv1.RenewLeaseRequest{Key: "job", TtlMs: -1})
		expect(t, "a TTL", err, codes.InvalidArgument, "ttl_ms = -1: must be >= 0")
		_, err = c.ReturnLease(ctx, &weirv1.ReturnLeaseRequest{Key: "job", LeaseId: "x"})
		expect(t, "no lease", err, codes.NotFound, decider.ErrNoLease.Error())
		_, err = c.ReturnLease(ctx, &weirv1.ReturnLeaseRequest{Key: "job", Outcome: 99})
		expect(t, "an outcome", err, codes.InvalidArgument, "the outcome is unknown: 99")
		if left := remaining(t, c, "a"); left != 5 {
			t.Errorf("%d tokens are left: want 5", left)
		}
	})
}

// remaining returns the tokens of a key.
func remaining(t *testing.T, c weirv1.WeirServiceClient, key string) int64 {
	t.Helper()
	answer, err := c.Decide(t.Context(), &weirv1.DecideRequest{Key: key, N: of(int32(0))})
	testrig.Must(t, err)
	return answer.GetDecision().GetRemaining()
}

// A request can take as many tokens as there are, alone and in a batch.
func TestAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := dial(t, newServer(t), weirapi.Config{}), t.Context()
		for _, want := range []int64{3, 2, 0} {
			answer, err := c.Decide(ctx, &weirv1.DecideRequest{Key: "a", N: of(int32(3)), AtMost: true})
			testrig.Must(t, err)
			if d := answer.GetDecision(); d.GetGranted() != want || d.GetOk() != (want > 0) || (d.GetRequestId() != "") != d.GetOk() {
				t.Errorf("%v: want %d", d, want)
			}
		}
		answer, err := c.Batch(ctx, &weirv1.BatchRequest{Ids: true, Requests: []*weirv1.BatchItem{{Key: "b", N: of(int32(2))}, {Key: "b", N: of(int32(9)), AtMost: true}}})
		testrig.Must(t, err)
		if d := answer.GetDecisions(); !answer.GetOk() || len(d) != 2 || d[0].GetGranted() != 0 || d[1].GetGranted() != 3 || d[1].GetRequestId() == "" {
			t.Errorf("%v", answer)
		}
	})
}

// The answers have the fields of the API over HTTP.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := dial(t, newServer(t), weirapi.Config{}), t.Context()
		same := func(got, want *weirv1.Decision) {
			t.Helper()
			got.RequestId = ""
			if g, w := prototext.Format(got), prototext.Format(want); g != w {
				t.Errorf("%s\nwant\n%s", g, w)
			}
		}
		answer, err := c.Decide(ctx, &weirv1.DecideRequest{Key: "a", N: of(int32(4))})
		testrig.Must(t, err)
		same(answer.GetDecision(), &weirv1.Decision{Ok: true, Remaining: of(int64(1)), Quotas: []*weirv1.Quota{{Rule: "all", Limit: 5, Remaining: 1, ResetAfterMs: 800}}})
		answer, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "a", N: of(int32(2))})
		testrig.Must(t, err)
		same(answer.GetDecision(), &weirv1.Decision{Reason: weirv1.Reason_REASON_OVER_RATE, Rule: "all", RetryAfterMs: 200,
			Quotas: []*weirv1.Quota{{Rule: "all", Limit: 5, Remaining: 1, ResetAfterMs: 800}}})
		x, err := c.Explain(ctx, &weirv1.ExplainRequest{Key: "a"})
		testrig.Must(t, err)
		if r := x.GetRules(); !x.GetAllowed() || len(r) != 1 || r[0].GetRate() != "5/s" || r[0].GetUsed() != 4 || r[0].GetLimit() != 5 || r[0].GetLease() != nil {
			t.Errorf("%v", x)
		}
	})
}

// A deaf Decider grants a second later, whether its caller is still there or not.
type deaf struct{ *server.Server }

func (d deaf) Wait(_ context.Context, req *decider.Request, v *decider.Verdict) error {
	req.OnWait()
	time.Sleep(time.Second)
	return d.Server.Wait(context.Background(), req, v)
}

func (d deaf) Acquire(_ context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	req.OnWait()
	time.Sleep(time.Second)
	return d.Server.Acquire(context.Background(), req)
}

// A client that leaves as its turn comes gets neither tokens nor a lease.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := dial(t, deaf{s}, weirapi.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		tokens, err := c.Wait(ctx, &weirv1.WaitRequest{Key: "a", N: of(int32(5))})
		testrig.Must(t, err)
		lease, err := c.WaitLease(ctx, &weirv1.WaitLeaseRequest{Key: "job"})
		testrig.Must(t, err)
		if m, err := tokens.Recv(); err != nil || m.GetQueued() == nil {
			t.Errorf("%v, %v: want that it is queued", m, err)
		}
		if m, err := lease.Recv(); err != nil || m.GetQueued() == nil {
			t.Errorf("%v, %v: want that it is queued", m, err)
		}
		cancel()
		time.Sleep(2 * time.Second)
		if left := remaining(t, c, "a"); left != 5 {
			t.Errorf("%d tokens are left: want 5", left)
		}
		x, err := c.Explain(t.Context(), &weirv1.ExplainRequest{Key: "job"})
		testrig.Must(t, err)
		if n := x.GetRules()[0].GetLease().GetInflight(); n != 0 {
			t.Errorf("%d units are in use", n)
		}
	})
}

// The wait is bounded by the request, and by the deadline of the call, which the server hears.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, newServer(t), weirapi.Config{})
		_, err := c.Decide(t.Context(), &weirv1.DecideRequest{Key: "a", N: of(int32(5))})
		testrig.Must(t, err)
		_, err = c.AcquireLease(t.Context(), &weirv1.AcquireLeaseRequest{Key: "job", N: of(int32(2))})
		testrig.Must(t, err)
		for _, tt := range []struct {
			call    time.Duration
			timeout *int64
		}{{time.Hour, of(int64(100))}, {100 * time.Millisecond, nil}} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.call)
			defer cancel()
			start := time.Now()
			stream, err := c.Wait(ctx, &weirv1.WaitRequest{Key: "a", TimeoutMs: tt.timeout})
			testrig.Must(t, err)
			m, err := stream.Recv()
			testrig.Must(t, err)
			if d := m.GetDecision(); d.GetReason() != weirv1.Reason_REASON_TOO_LATE || d.GetRetryAfterMs() != 200 || time.Since(start) != 0 {
				t.Errorf("%v after %v: want too late at once", m, time.Since(start))
			}
		}
		start := time.Now()
		stream, err := c.WaitLease(t.Context(), &weirv1.WaitLeaseRequest{Key: "job", TimeoutMs: of(int64(300))})
		testrig.Must(t, err)
		m, err := stream.Recv()
		if testrig.Must(t, err); m.GetQueued() == nil {
			t.Errorf("%v: want that it is queued", m)
		}
		m, err = stream.Recv()
		testrig.Must(t, err)
		if took := time.Since(start); m.GetDecision().GetReason() != weirv1.Reason_REASON_TOO_LATE || took != 300*time.Millisecond {
			t.Errorf("%v after %v: want too late after 300ms", m, took)
		}
	})
}

// A token allows its keys and calls.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := token.Parse("tokens.yaml", []byte(`tokens: [{name: a, token: the-secret-of-a-is-long, keys: ["a*"], allow: [decide]}]`))
		testrig.Must(t, err)
		var guard token.Guard
		guard.Use(set)
		c := dial(t, newServer(t), weirapi.Config{Identify: func(ctx context.Context) (*token.Session, error) {
			secret, _ := token.Bearer(metadata.ValueFromIncomingContext(ctx, "authorization")[0])
			return guard.Identify(secret), nil
		}})
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer the-secret-of-a-is-long")
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "a1"})
		testrig.Must(t, err)
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "b"})
		expect(t, "another key", err, codes.PermissionDenied, "")
		_, err = c.Batch(ctx, &weirv1.BatchRequest{Requests: []*weirv1.BatchItem{{Key: "a1"}, {Key: "b"}}})
		expect(t, "another key of a batch", err, codes.PermissionDenied, "")
		_, err = c.AcquireLease(ctx, &weirv1.AcquireLeaseRequest{Key: "a1"})
		expect(t, "a lease", err, codes.PermissionDenied, "")
		_, err = c.Explain(ctx, &weirv1.ExplainRequest{Key: "a1"})
		expect(t, "an explanation", err, codes.PermissionDenied, "")
	})
}

// Calls in progress are bounded by their kind. A call gives its place back at its end.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[connlimit.Kind]*connlimit.Limit{}
		for _, kind := range []connlimit.Kind{connlimit.Waiting, connlimit.Deciding, connlimit.Settling} {
			limits[kind] = connlimit.NewLimit(kind, 1)
		}
		c, ctx := dial(t, newServer(t), weirapi.Config{Limit: func(k connlimit.Kind) *connlimit.Limit { return limits[k] }}), t.Context()
		_, err := c.AcquireLease(ctx, &weirv1.AcquireLeaseRequest{Key: "job", N: of(int32(2))})
		testrig.Must(t, err)
		waiting, cancel := context.WithCancel(ctx)
		first, err := c.WaitLease(waiting, &weirv1.WaitLeaseRequest{Key: "job"})
		testrig.Must(t, err)
		_, err = first.Recv()
		testrig.Must(t, err)
		second, err := c.WaitLease(ctx, &weirv1.WaitLeaseRequest{Key: "job"})
		testrig.Must(t, err)
		_, err = second.Recv()
		expect(t, "a second wait", err, codes.Unavailable, "too many requests at once from your address, or from all; try again")
		_, err = c.Decide(ctx, &weirv1.DecideRequest{Key: "a"})
		testrig.Must(t, err)
		cancel()
		synctest.Wait()
		for kind, l := range limits {
			if _, used, _ := l.Count(); used != 0 {
				t.Errorf("%v: %d places are taken", kind, used)
			}
		}
	})
}

// A server that closes denies, with a reason.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := dial(t, s, weirapi.Config{})
		s.Close(true)
		answer, err := c.AcquireLease(t.Context(), &weirv1.AcquireLeaseRequest{Key: "job"})
		testrig.Must(t, err)
		if d := answer.GetDecision(); d.GetLease() != nil || d.GetReason() != weirv1.Reason_REASON_CLOSED || d.GetRetryAfterMs() == 0 {
			t.Errorf("%v", answer)
		}
	})
}
