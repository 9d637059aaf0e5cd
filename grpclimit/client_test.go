package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/throttle"
)

func TestClientValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  grpclimit.ClientConfig
		want string
	}{
		{grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: -1}}, "grpclimit: Retry: throttle: Attempts = -1: must be >= 0"},
		{grpclimit.ClientConfig{Criticality: "a b"}, `grpclimit: Criticality = "a b": must be a name of metadata`},
		{grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Ratio: 2}}, "grpclimit: Retry: throttle: Ratio = 2: must be in (0, 1]"},
		{grpclimit.ClientConfig{Throttle: throttle.Config{K: 0.5}}, "grpclimit: Throttle: throttle: K = 0.5: must be >= 1 and finite"},
	} {
		if c, err := grpclimit.NewClient(tt.cfg); err == nil || err.Error() != tt.want || c != nil {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// server is a server in virtual time: what the invoker of a call meets.
type server struct {
	answers []error // of the calls, in order; then none
	md      []metadata.MD
	took    time.Duration
	began   []time.Duration
	epoch   time.Time
	mu      sync.Mutex
}

func (s *server) invoke(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
	s.mu.Lock()
	n := len(s.began)
	s.began = append(s.began, time.Since(s.epoch))
	s.mu.Unlock()
	if s.took > 0 {
		time.Sleep(s.took)
	}
	if n < len(s.md) {
		for _, o := range opts {
			if o, ok := o.(grpc.TrailerCallOption); ok {
				*o.TrailerAddr = s.md[n]
			}
		}
	}
	if n < len(s.answers) {
		return s.answers[n]
	}
	return nil
}

func (s *server) call(ctx context.Context, c *grpclimit.Client, method string) error {
	return c.Unary()(ctx, method, nil, nil, nil, s.invoke)
}

// saying is a status with a RetryInfo.
func saying(code codes.Code, d time.Duration) error {
	s, err := status.New(code, "come back later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

const (
	ms = time.Millisecond
	s  = time.Second
)

// What a server asks for is waited for, and a bit more; then calls go one after
// the other.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		md   metadata.MD
		wait time.Duration // 0: none
	}{
		{"RetryInfo of a quota", saying(codes.ResourceExhausted, s), nil, s},
		{"RetryInfo of an overload", saying(codes.Unavailable, s), nil, s},
		{"pushback", status.Error(codes.Unavailable, ""), metadata.Pairs("grpc-retry-pushback-ms", "1500"), 1500 * ms},
		{"pushback wins", saying(codes.ResourceExhausted, s), metadata.Pairs("grpc-retry-pushback-ms", "500"), 500 * ms},
		{"kept back further down", saying(codes.Unavailable, s), metadata.Pairs("weir-reason", "throttled"), s},
		{"in vain", saying(codes.ResourceExhausted, s), metadata.Pairs("grpc-retry-pushback-ms", "-1"), 0},
		{"malformed", saying(codes.ResourceExhausted, s), metadata.Pairs("grpc-retry-pushback-ms", "soon"), 0},
		{"twice", saying(codes.ResourceExhausted, s), metadata.Pairs("grpc-retry-pushback-ms", "1", "grpc-retry-pushback-ms", "2"), 0},
		{"nothing said", status.Error(codes.Unavailable, ""), nil, 0},
		{"another code", saying(codes.Internal, s), nil, 0},
		{"a negative delay", saying(codes.Unavailable, -s), nil, 0},
		{"too large a message", func() error {
			st, _ := status.New(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(s)})
			return st.Err()
		}(), nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, grpclimit.ClientConfig{})
				srv := &server{answers: []error{tt.err}, md: []metadata.MD{tt.md}, epoch: time.Now()}
				if err := srv.call(t.Context(), c, emptyCall); err != tt.err {
					t.Fatalf("%v: want what the server said", err)
				}
				if err := srv.call(t.Context(), c, duplex); err != nil || srv.began[1] != 0 {
					t.Errorf("another method: %v at %v", err, srv.began[1])
				}
				if err := srv.call(t.Context(), c, emptyCall); err != nil {
					t.Error(err)
				}
				if at := srv.began[2]; at < tt.wait || at > tt.wait*11/10 {
					t.Errorf("called again after %v, want %v", at, tt.wait)
				}
				waited := uint64(1)
				if tt.wait == 0 {
					waited = 0
				}
				if st := c.Stats(); st.Sent != 3 || st.Waited != waited || st.Waiting != 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Waiting calls go in order, a gap apart that good answers shorten.
func TestPaceOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, grpclimit.ClientConfig{})
		srv := &server{answers: []error{saying(codes.Unavailable, 10*s)}, epoch: time.Now()}
		_ = srv.call(t.Context(), c, emptyCall)
		var order []int
		var wg sync.WaitGroup
		for n := range 30 {
			time.Sleep(ms)
			wg.Go(func() {
				if err := srv.call(t.Context(), c, emptyCall); err != nil {
					t.Error(err)
				}
				srv.mu.Lock()
				defer srv.mu.Unlock()
				order = append(order, n)
			})
		}
		synctest.Wait()
		if n := c.Stats().Waiting; n != 30 {
			t.Errorf("%d wait: want 30", n)
		}
		wg.Wait()
		for n := range 8 { // then the gap is over: several go at the same instant
			if order[n] != n {
				t.Fatalf("order %v", order)
			}
		}
		if first, second, last := srv.began[1], srv.began[2], srv.began[30]; first < 10*s || first > 11*s ||
			second-first != 50*ms || last-first > 101*ms || last-first < 90*ms {
			t.Errorf("went at %v, %v … %v", first, second, last)
		}
	})
}

// A call that would wait too long is refused at once.
func TestPaceBounds(t *testing.T) {
	const hold = 10 * s
	for _, tt := range []struct {
		name    string
		cfg     grpclimit.ClientConfig
		said    codes.Code
		timeout time.Duration
		want    codes.Code
		reason  weir.Reason
		took    time.Duration
	}{
		{"longer than MaxWait", grpclimit.ClientConfig{MaxWait: 9 * s}, codes.Unavailable, 0, codes.Unavailable, weir.Throttled, 0},
		{"longer than MaxWait, a quota", grpclimit.ClientConfig{MaxWait: 9 * s}, codes.ResourceExhausted, 0, codes.ResourceExhausted, weir.OverRate, 0},
		{"longer than the deadline", grpclimit.ClientConfig{}, codes.Unavailable, 5 * s, codes.Unavailable, weir.TooLate, 0},
		{"no room in the queue", grpclimit.ClientConfig{Queue: -1}, codes.Unavailable, 0, codes.Unavailable, weir.QueueFull, 0},
		{"patient", grpclimit.ClientConfig{MaxWait: -1}, codes.Unavailable, 0, codes.OK, 0, hold},
		{"a server is believed only for so long", grpclimit.ClientConfig{MaxHold: s}, codes.Unavailable, 0, codes.OK, 0, s},
		{"off", grpclimit.ClientConfig{MaxHold: -1}, codes.Unavailable, 0, codes.OK, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, tt.cfg)
				srv := &server{answers: []error{saying(tt.said, hold)}, epoch: time.Now()}
				_ = srv.call(t.Context(), c, emptyCall)
				ctx := t.Context()
				if tt.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				}
				err := srv.call(ctx, c, emptyCall)
				why, _ := errors.AsType[*weir.Rejection](err)
				if status.Code(err) != tt.want || (why != nil) != (tt.reason != 0) || why != nil && why.Reason != tt.reason {
					t.Errorf("%v, %v: want %v, %v", err, why, tt.want, tt.reason)
				}
				if why != nil && (why.RetryAfter < hold || c.Stats().Rejected != 1) {
					t.Errorf("%+v, %+v", why, c.Stats())
				}
				if took := time.Since(srv.epoch); took < tt.took || took > tt.took*11/10 {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

// A call fails at once when its wait becomes longer than MaxWait; a call
// that is cancelled while it waits has the status of that.
func TestPaceGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, grpclimit.ClientConfig{MaxWait: 10 * s})
		srv := &server{answers: []error{saying(codes.ResourceExhausted, 9*s), saying(codes.ResourceExhausted, 60*s)}, took: s, epoch: time.Now()}
		var wg sync.WaitGroup
		wg.Go(func() { _ = srv.call(t.Context(), c, emptyCall) })
		time.Sleep(500 * ms)
		wg.Go(func() { _ = srv.call(t.Context(), c, emptyCall) })
		time.Sleep(750 * ms) // the first answer has come, the second not yet
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*ms, cancel)
		wg.Go(func() {
			if err := srv.call(ctx, c, emptyCall); status.Code(err) != codes.Canceled || time.Since(srv.epoch) != 1350*ms {
				t.Errorf("%v at %v", err, time.Since(srv.epoch))
			}
		})
		err := srv.call(t.Context(), c, emptyCall)
		why, ok := errors.AsType[*weir.Rejection](err)
		if !ok || why.Reason != weir.OverRate || time.Since(srv.epoch) != 1500*ms {
			t.Errorf("%v at %v", err, time.Since(srv.epoch))
		}
		wg.Wait()
		if st := c.Stats(); st.Cancelled != 1 || st.Rejected != 1 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// An answer to a call that was in flight shows that a server is available; it
// says nothing about a quota.
func TestPaceContradicted(t *testing.T) {
	for _, tt := range []struct {
		said codes.Code
		at   time.Duration
	}{{codes.Unavailable, 500 * ms}, {codes.ResourceExhausted, 10 * s}} {
		synctest.Test(t, func(t *testing.T) {
			c := client(t, grpclimit.ClientConfig{})
			srv := &server{answers: []error{nil, saying(tt.said, 10*s)}, epoch: time.Now()}
			slow := &server{took: 500 * ms, epoch: time.Now()}
			var wg sync.WaitGroup
			wg.Go(func() { _ = slow.call(t.Context(), c, emptyCall) })
			synctest.Wait()
			for range 2 {
				_ = srv.call(t.Context(), c, emptyCall)
			}
			if err := srv.call(t.Context(), c, emptyCall); err != nil {
				t.Error(err)
			}
			if at := srv.began[2]; at < tt.at || at > tt.at*11/10 {
				t.Errorf("%v: went at %v, want %v", tt.said, at, tt.at)
			}
			wg.Wait()
		})
	}
}

// A unary call that was refused is retried when the server says so, within a budget.
func TestRetry(t *testing.T) {
	plain := status.Error(codes.Unavailable, "connection reset")
	for _, tt := range []struct {
		name    string
		cfg     grpclimit.ClientConfig
		answers []error
		md      []metadata.MD
		calls   int
		took    time.Duration
		want    codes.Code
	}{
		{"off by default", grpclimit.ClientConfig{}, []error{saying(codes.Unavailable, s)}, nil, 1, 0, codes.Unavailable},
		{"what was refused", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3, Backoff: -1}}, []error{saying(codes.Unavailable, s), saying(codes.ResourceExhausted, 2*s)}, nil, 3, 3 * s, codes.OK},
		{"not more often", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 2, Backoff: -1}}, []error{saying(codes.Unavailable, s), saying(codes.Unavailable, s)}, nil, 2, s, codes.Unavailable},
		{"not what may have been done", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3}}, []error{plain}, nil, 1, 0, codes.Unavailable},
		{"a reason of weir shows that it was not", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3, Backoff: -1}}, []error{plain}, []metadata.MD{metadata.Pairs("weir-reason", "too_late")}, 2, 0, codes.OK},
		{"but for what a client keeps back", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3}}, []error{saying(codes.Unavailable, s)}, []metadata.MD{metadata.Pairs("weir-reason", "throttled")}, 1, 0, codes.Unavailable},
		{"not in vain", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3}}, []error{saying(codes.Unavailable, s)}, []metadata.MD{metadata.Pairs("grpc-retry-pushback-ms", "-1")}, 1, 0, codes.Unavailable},
		{"not for too long", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3}, MaxWait: s - 1}, []error{saying(codes.Unavailable, s)}, nil, 1, 0, codes.Unavailable},
		{"not without a budget", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3, MinPerSecond: -1}}, []error{saying(codes.Unavailable, s)}, nil, 1, 0, codes.Unavailable},
		{"nothing else", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3}}, []error{saying(codes.NotFound, s)}, nil, 1, 0, codes.NotFound},
		{"success", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3}}, nil, nil, 1, 0, codes.OK},
		{"another failure stands", grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3, Backoff: -1}}, []error{saying(codes.Unavailable, s), status.Error(codes.NotFound, "")}, nil, 2, s, codes.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := client(t, tt.cfg)
				srv := &server{answers: tt.answers, md: tt.md, epoch: time.Now()}
				err := srv.call(t.Context(), c, emptyCall)
				if took := time.Since(srv.epoch); len(srv.began) != tt.calls || took < tt.took || took > tt.took*11/10 || status.Code(err) != tt.want {
					t.Errorf("%v: %d calls in %v: want %d in %v", err, len(srv.began), took, tt.calls, tt.took)
				}
				if n := len(srv.began); err != nil && err != srv.answers[n-1] {
					t.Errorf("%#v: want what the server said", err)
				}
				if st := c.Stats(); (st.Budget != nil) != (tt.cfg.Retry != nil) || st.Budget != nil && st.Budget.Retried != uint64(tt.calls-1) {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// If the retry is kept back, what the server said stands; what has ended before
// it began is not sent.
func TestRetryKeptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := fixed(t, 1)
		c := client(t, grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 3, Backoff: -1}, Limiter: lim, MaxHold: -1})
		srv := &server{answers: []error{saying(codes.Unavailable, s)}, epoch: time.Now()}
		time.AfterFunc(500*ms, func() { _, _ = lim.Acquire(context.Background(), 1) })
		if err := srv.call(t.Context(), c, emptyCall); err != srv.answers[0] || time.Since(srv.epoch) != s {
			t.Errorf("%v at %v", err, time.Since(srv.epoch))
		}
		if err := srv.call(t.Context(), c, emptyCall); status.Code(err) != codes.Unavailable || !errors.Is(err, weir.ErrRejected) {
			t.Errorf("%v: want the limiter's refusal", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := srv.call(ctx, c, emptyCall); status.Code(err) != codes.Canceled || len(srv.began) != 1 {
			t.Errorf("%v", err)
		}
	})
}

// A server that refuses all is soon asked for little.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, off := range []bool{false, true} {
			c := client(t, grpclimit.ClientConfig{Throttle: throttle.Config{MaxP: map[bool]float64{true: -1}[off]}})
			srv := &server{epoch: time.Now()}
			for range 1000 {
				srv.answers = append(srv.answers, status.Error(codes.Unavailable, ""))
			}
			var err error
			for range 1000 {
				if e := srv.call(t.Context(), c, emptyCall); errors.Is(e, weir.ErrRejected) {
					err = e
				}
			}
			st := c.Stats()
			if off != (len(srv.began) == 1000) || off != (st.Throttle == nil) || off != (err == nil) {
				t.Errorf("%d calls, %v", len(srv.began), err)
			}
			if !off && (status.Code(err) != codes.Unavailable || len(srv.began) > 500 || st.Throttled != st.Throttle.Throttled) {
				t.Errorf("%d calls, %v, %+v", len(srv.began), err, st)
			}
		}
	})
}

// A quota, and calls that their callers leave, are no reason to throttle.
func TestNotThrottled(t *testing.T) {
	for _, err := range []error{status.Error(codes.ResourceExhausted, "your mailbox is full"), status.Error(codes.Canceled, "")} {
		c := client(t, grpclimit.ClientConfig{})
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
				cancel()
				return err
			}
			if got := c.Unary()(ctx, emptyCall, nil, nil, nil, invoke); got != err {
				t.Fatalf("%v: throttled after %+v", err, c.Stats().Throttle)
			}
			cancel()
		}
	}
}

// A call that waits in the limiter while the server asks for a wait also waits for the
// server, and holds no unit meanwhile.
func TestLimiterHeedsHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lim := queued(t, 1, 100)
		c := client(t, grpclimit.ClientConfig{Limiter: lim})
		srv := &server{answers: []error{saying(codes.ResourceExhausted, 3*s)}, took: 20 * ms, epoch: time.Now()}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _ = srv.call(t.Context(), c, emptyCall) })
		}
		time.Sleep(s)
		if st := lim.Stats(); st.Inflight != 0 || st.Waiting != 0 || c.Stats().Waiting != 9 {
			t.Errorf("%+v, %+v: want nine to wait for the server, and nobody for the limiter", st, c.Stats())
		}
		wg.Wait()
		if len(srv.began) != 10 || srv.began[1] < 3*s {
			t.Errorf("called at %v: want nobody to call again before 3s", srv.began)
		}
		if st := c.Stats(); st.Sent != 10 || st.Waited != 9 || st.Throttle.Requests != 10 {
			t.Errorf("%+v", st)
		}
	})
}

// A stream is accepted once its header has come; the first message may be hours
// away.
func TestHeaderAccepts(t *testing.T) {
	header := func(stream pb.TestService_FullDuplexCallServer) error {
		if err := stream.SendHeader(metadata.Pairs("ok", "1")); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}
	refuse := func(pb.TestService_FullDuplexCallServer) error { return status.Error(codes.Unavailable, "") }
	for _, tt := range []struct {
		handler func(pb.TestService_FullDuplexCallServer) error
		accepts int
	}{{header, 1}, {refuse, 0}} {
		cl := client(t, grpclimit.ClientConfig{})
		_, c := dialBy(t, cl, serve(t, &service{duplex: tt.handler}, nil))
		stream, err := c.FullDuplexCall(t.Context())
		testrig.Must(t, err)
		_, _ = stream.Header()
		if a := cl.Stats().Throttle; a.Requests != 1 || a.Accepts != tt.accepts {
			t.Errorf("%+v: want %d accepts", a, tt.accepts)
		}
	}
}

// Calls that are kept back are counted by what keeps them back.
func TestClientRefusals(t *testing.T) {
	for _, tt := range []struct {
		err                error
		limited, cancelled uint64
	}{{weir.Reject(weir.OverLimit, 0), 1, 0}, {context.Canceled, 0, 1}, {errors.New("out of order"), 0, 1}} {
		c := client(t, grpclimit.ClientConfig{Limiter: refuse{tt.err}})
		_ = (&server{}).call(t.Context(), c, emptyCall)
		if st := c.Stats(); st.Limited != tt.limited || st.Cancelled != tt.cancelled || st.Sent != 0 || st.Throttle.Requests != 0 {
			t.Errorf("%v: %+v", tt.err, st)
		}
	}
}

// What the limiter learns of calls.
func TestClientOutcomes(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want weir.Outcome
	}{
		{t.Context(), nil, weir.Success},
		{t.Context(), status.Error(codes.Unavailable, ""), weir.Dropped},
		{t.Context(), status.Error(codes.ResourceExhausted, ""), weir.Ignored},
		{t.Context(), status.Error(codes.ResourceExhausted, "trying to send message larger than max (5 vs. 4)"), weir.Ignored},
		{t.Context(), status.Error(codes.DeadlineExceeded, ""), outcome.TimedOut},
		{t.Context(), status.Error(codes.Canceled, ""), weir.Ignored},
		{ended, status.Error(codes.Canceled, ""), outcome.Left},
		{t.Context(), status.Error(codes.NotFound, ""), weir.Ignored},
		{t.Context(), fmt.Errorf("max retries exhausted: %w", status.Error(codes.Unavailable, "")), weir.Dropped},
	} {
		heard := new(testrig.Limiter)
		c := client(t, grpclimit.ClientConfig{Limiter: heard, Throttle: throttle.Config{MaxP: -1}})
		_ = (&server{answers: []error{tt.err}}).call(tt.ctx, c, emptyCall)
		if o := c.Stats().Outcomes; !slices.Equal(heard.Outcomes(), []weir.Outcome{tt.want}) || o[tt.want] != 1 {
			t.Errorf("%v: %v, want %v", tt.err, heard.Outcomes(), tt.want)
		}
	}
	heard := new(testrig.Limiter)
	c := client(t, grpclimit.ClientConfig{Limiter: heard})
	func() {
		defer func() { _ = recover() }()
		_ = c.Unary()(t.Context(), emptyCall, nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { panic("oops") })
	}()
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Stream()(t.Context(), nil, nil, duplex, func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
			panic("oops")
		})
	}()
	heard.WantEnded(t, weir.Ignored, weir.Ignored)
}

// However a stream ends, it gives its unit back, once.
func TestClientStreamEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(pb.TestService_FullDuplexCallClient, *grpc.ClientConn, context.CancelFunc)
		want weir.Outcome
	}{
		{"to its end", func(s pb.TestService_FullDuplexCallClient, _ *grpc.ClientConn, _ context.CancelFunc) {
			_ = s.CloseSend()
			_, _ = s.Recv()
		}, weir.Success},
		{"abandoned, and its context cancelled", func(_ pb.TestService_FullDuplexCallClient, _ *grpc.ClientConn, cancel context.CancelFunc) { cancel() }, outcome.Left},
		{"abandoned, and the connection closed", func(_ pb.TestService_FullDuplexCallClient, conn *grpc.ClientConn, _ context.CancelFunc) {
			_ = conn.Close()
		}, weir.Ignored},
		{"refused", func(s pb.TestService_FullDuplexCallClient, _ *grpc.ClientConn, _ context.CancelFunc) {
			_ = s.Send(&pb.StreamingOutputCallRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.Unavailable)}})
			_, _ = s.Recv()
		}, weir.Dropped},
	} {
		handler := func(stream pb.TestService_FullDuplexCallServer) error {
			for {
				m, err := stream.Recv()
				if err != nil {
					return nil
				}
				if c := m.GetResponseStatus().GetCode(); c != 0 {
					return status.Error(codes.Code(c), "")
				}
				_ = stream.Send(&pb.StreamingOutputCallResponse{})
			}
		}
		heard := new(testrig.Limiter)
		cl := client(t, grpclimit.ClientConfig{Limiter: heard})
		conn, c := dialBy(t, cl, serve(t, &service{duplex: handler}, nil))
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.FullDuplexCall(ctx)
		testrig.Must(t, err)
		for range 5 {
			testrig.Must(t, stream.Send(&pb.StreamingOutputCallRequest{}))
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		heard.WantHeld(t, 1, tt.name+": while it lasts")
		if a := cl.Stats().Throttle; a.Requests != 1 || a.Accepts != 1 {
			t.Errorf("%s: %+v: want it accepted by its first message", tt.name, a)
		}
		tt.end(stream, conn, cancel)
		testrig.Eventually(t, tt.name+": it gives its unit back", func() bool { return heard.Held() == 0 })
		cancel()
		_ = conn.Close()
		if o := heard.Outcomes(); len(o) != 1 || o[0] != tt.want || cl.Stats().Outcomes[tt.want] != 1 {
			t.Errorf("%s: %v, want %v", tt.name, o, tt.want)
		}
		if a := cl.Stats().Throttle; a.Accepts != 1 {
			t.Errorf("%s: %+v: want one accept", tt.name, a)
		}
	}
}

// A stream that cannot be begun gives back what it was given; one that is
// refused is heeded like any other call.
func TestClientStreamRefused(t *testing.T) {
	i := interceptor(t, grpclimit.Config{Limiter: refuse{weir.Reject(weir.OverRate, time.Minute)}})
	heard := new(testrig.Limiter)
	cl := client(t, grpclimit.ClientConfig{Limiter: heard, MaxWait: s})
	conn, c := dialBy(t, cl, serve(t, &service{}, i))
	stream, err := c.FullDuplexCall(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || errors.Is(err, weir.ErrRejected) {
		t.Errorf("%v: want the server's refusal", err)
	}
	_, err = c.FullDuplexCall(t.Context())
	if status.Code(err) != codes.ResourceExhausted || !errors.Is(err, weir.ErrRejected) {
		t.Errorf("%v: want the client's own", err)
	}
	_ = conn.Close()
	if _, err := c.StreamingInputCall(t.Context()); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	if held, o := heard.Held(), heard.Outcomes(); held != 0 || len(o) != 2 || cl.Stats().Throttle.Accepts != 2 {
		t.Errorf("%d held, %v, %+v", held, o, cl.Stats().Throttle)
	}
}

// The pushback of a stream is in its trailers.
func TestClientStreamPushback(t *testing.T) {
	busy := func(stream pb.TestService_FullDuplexCallServer) error {
		stream.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "60000"))
		return status.Error(codes.Unavailable, "")
	}
	_, c := dialBy(t, client(t, grpclimit.ClientConfig{MaxWait: s}), serve(t, &service{duplex: busy}, nil))
	stream, err := c.FullDuplexCall(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable || errors.Is(err, weir.ErrRejected) {
		t.Errorf("%v: want the server's refusal", err)
	}
	if _, err = c.FullDuplexCall(t.Context()); !errors.Is(err, weir.ErrRejected) {
		t.Errorf("%v: want the client's own", err)
	}
}

// What is remembered is bounded: of further methods nothing is.
func TestManyMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, grpclimit.ClientConfig{MaxWait: s, Throttle: throttle.Config{MaxP: -1}})
		srv := &server{epoch: time.Now()}
		for range 1001 {
			srv.answers = append(srv.answers, saying(codes.Unavailable, 60*s))
		}
		for n := range 1001 {
			_ = srv.call(t.Context(), c, fmt.Sprint("/service/", n))
		}
		for n, want := range map[int]codes.Code{0: codes.Unavailable, 999: codes.Unavailable, 1000: codes.OK} {
			if err := srv.call(t.Context(), c, fmt.Sprint("/service/", n)); status.Code(err) != want {
				t.Errorf("method %d: %v, want %v", n, err, want)
			}
		}
	})
}

// Both sides together: the client waits for as long as the server says, and the
// priority is handed on.
func TestBothSides(t *testing.T) {
	var priority atomic.Int64
	see := &service{empty: func(ctx context.Context) error { priority.Store(int64(weir.ClassOf(ctx).Priority)); return nil }}
	lim := fixed(t, 1)
	i := interceptor(t, grpclimit.Config{Limiter: lim, Criticality: "criticality"})
	addr := serve(t, see, i)
	cl := client(t, grpclimit.ClientConfig{Retry: &throttle.RetryConfig{Attempts: 5}, Criticality: "Criticality"})
	_, c := dialBy(t, cl, addr)
	p, _ := lim.Acquire(t.Context(), 1)
	time.AfterFunc(100*ms, func() { p.Release(weir.Success) })
	if _, err := ask(weir.WithClass(t.Context(), weir.Class{Priority: weir.SheddablePlus}), t, c); err != nil || priority.Load() != int64(weir.SheddablePlus) {
		t.Errorf("%v, priority %d", err, priority.Load())
	}
	if st := cl.Stats(); st.Sent < 2 || st.Budget.Retried == 0 || i.Stats().Classes[0].Refused[weir.OverLimit] == 0 {
		t.Errorf("%+v", st)
	}
	for p, want := range map[weir.Priority]weir.Priority{-5: weir.Sheddable, weir.Critical: weir.Critical, 5: weir.Critical} {
		if _, err := ask(weir.WithClass(t.Context(), weir.Class{Priority: p}), t, c); err != nil || priority.Load() != int64(want) {
			t.Errorf("%v, priority %d: want %d", err, priority.Load(), want)
		}
	}
	sees := func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		md, _ := metadata.FromOutgoingContext(ctx)
		return errors.New(fmt.Sprint(md["criticality"]))
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "criticality", "sheddable")
	if err := cl.Unary()(ctx, emptyCall, nil, nil, nil, sees); err.Error() != "[sheddable]" {
		t.Errorf("%v: want what the caller has put there, alone", err)
	}
	if _, err := ask(ctx, t, c); err != nil || priority.Load() != int64(weir.Sheddable) {
		t.Errorf("%v, priority %d: want what the caller has put there", err, priority.Load())
	}
}
