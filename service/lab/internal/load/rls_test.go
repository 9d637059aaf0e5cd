package load_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/internal/pipenet"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A rateLimitService answers each request.
type rateLimitService func(context.Context, *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error)

func (f rateLimitService) ShouldRateLimit(ctx context.Context, r *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	code, err := f(ctx, r)
	return &rlsv3.RateLimitResponse{OverallCode: code}, err
}

// serve serves f until the test ends.
func (f rateLimitService) serve(t *testing.T, ln net.Listener, options ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(options...)
	rlsv3.RegisterRateLimitServiceServer(srv, f)
	t.Cleanup(srv.Stop)
	go func() { _ = srv.Serve(ln) }() // until Stop
	return srv
}

func (f rateLimitService) dial(t *testing.T) dial {
	ln := pipenet.Listen()
	f.serve(t, ln)
	return ln.Dial
}

func TestRateLimitService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		got := map[string]bool{}
		service := rateLimitService(func(ctx context.Context, r *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error) {
			mu.Lock()
			defer mu.Unlock()
			md, _ := metadata.FromIncomingContext(ctx)
			text := fmt.Sprint(r.Domain, md["authorization"], md[":authority"])
			for _, d := range r.Descriptors {
				for _, e := range d.Entries {
					text += fmt.Sprintf(" %s=%s", e.Key, e.Value)
				}
			}
			got[text] = true
			time.Sleep(100 * time.Millisecond)
			if len(got)%2 == 0 {
				return rlsv3.RateLimitResponse_OVER_LIMIT, nil
			}
			return rlsv3.RateLimitResponse_OK, nil
		})
		r, _ := run(t, t.Context(), load.Config{
			Target:  "grpc://h:1/shop/a%20b?z=1&user={n}&a=%26&empty",
			Header:  http.Header{"Authorization": {"Bearer x"}, "Host": {"envoy.test"}},
			Profile: pace.Constant(1), Duration: 10 * s, Dial: service.dial(t),
		})
		if r.ByStatus["200"] != 5 || r.ByStatus["429"] != 5 {
			t.Errorf("%v: want 5 of each", r.ByStatus)
		}
		near(t, "p50 of rejections", r.Latency.Rejections.P50, 0.1)
		for n := range 10 {
			if want := fmt.Sprintf("shop/a b[Bearer x] [envoy.test] z=1 user=%d a=& empty=", n+1); !got[want] {
				t.Errorf("%v: want %s", got, want)
			}
		}
	})
}

// The label of an error is its code if it is the server's.
func TestRateLimitServiceErrors(t *testing.T) {
	for code, want := range map[codes.Code]string{
		codes.Unavailable:       "UNAVAILABLE",
		codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
		codes.Unauthenticated:   "UNAUTHENTICATED",
		codes.Canceled:          "CANCELLED",
		codes.DeadlineExceeded:  "timeout",
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := run(t, t.Context(), load.Config{
				Target: "grpc://h:1/d?k=v", Profile: pace.Constant(1), Duration: s,
				Dial: rateLimitService(func(context.Context, *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error) {
					return 0, status.Error(code, "no")
				}).dial(t),
			})
			if r.ByStatus[want] != 1 || r.Latency.Successes != nil {
				t.Errorf("%v: %v: want %s", code, r.ByStatus, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, _ := run(t, t.Context(), load.Config{
			Target: "grpc://h:1/d?k=v", Profile: pace.Constant(1), Duration: s,
			Dial: rateLimitService(func(context.Context, *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error) {
				return rlsv3.RateLimitResponse_UNKNOWN, nil
			}).dial(t),
		})
		if r.ByStatus["UNKNOWN"] != 1 {
			t.Errorf("%v: want an answer without a decision", r.ByStatus)
		}
	})
}

// A slow server delays no request beyond its time-out.
func TestSlowRateLimitService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, _ *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error) {
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return rlsv3.RateLimitResponse_OK, ctx.Err()
		}
		r, _ := run(t, t.Context(), load.Config{
			Target: "grpc://h:1/d?k=v", Profile: pace.Constant(100), Duration: 5 * s, Timeout: s, Dial: rateLimitService(slow).dial(t),
		})
		if r.ByStatus["timeout"] != 500 {
			t.Errorf("%v: want 500 time-outs", r.ByStatus)
		}
		near(t, "max", r.Latency.All.Max, 1)
	})
}

// A server that ends, is away, and is there again. Requests in between fail at once, and
// those after it succeed again within a second.
func TestRateLimitServiceRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := rateLimitService(func(context.Context, *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error) {
			return rlsv3.RateLimitResponse_OK, nil
		})
		ln := pipenet.Listen()
		srv := ok.serve(t, ln)
		began := time.Now()
		time.AfterFunc(10*s, srv.Stop)
		again := pipenet.Listen()
		ok.serve(t, again)
		_, records := run(t, t.Context(), load.Config{
			Target: "grpc://h:1/d?k=v", Profile: pace.Constant(100), Duration: 30 * s,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch at := time.Since(began); {
				case at < 10*s:
					return ln.Dial(ctx, network, addr)
				case at < 20*s:
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				return again.Dial(ctx, network, addr)
			},
		})
		for _, r := range records {
			want := "200"
			if r.Intended >= 10*s && r.Intended < 20*s {
				want = "refused"
			}
			// The client tries to connect once in a second, and 20 % more.
			backoff := r.Intended >= 20*s && r.Intended < 21200*time.Millisecond
			if r.Intended != 10*s && !backoff && r.Label() != want || r.Latency() > 0 && r.Intended < 20*s {
				t.Errorf("at %v: %s after %v: want %s", r.Intended, r.Label(), r.Latency(), want)
			}
		}
	})
}

func TestRateLimitServiceTLS(t *testing.T) {
	server, client := certificate(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rateLimitService(func(context.Context, *rlsv3.RateLimitRequest) (rlsv3.RateLimitResponse_Code, error) {
		return rlsv3.RateLimitResponse_OK, nil
	}).serve(t, ln, grpc.Creds(credentials.NewTLS(server)))
	cfg := load.Config{Target: "grpcs://" + ln.Addr().String() + "/d?k=v", Profile: pace.Constant(100), Duration: 100 * time.Millisecond}
	if r, _ := run(t, t.Context(), cfg); r.ByStatus["untrusted"] != 10 {
		t.Errorf("%v: want that an unknown authority does not count", r.ByStatus)
	}
	cfg.TLS = client
	if r, _ := run(t, t.Context(), cfg); r.ByStatus["200"] != 10 {
		t.Errorf("%v: want 10 answers", r.ByStatus)
	}
}

// Fields that a gRPC client does not take from metadata are refused.
func TestMetadataThatGRPCSetsItself(t *testing.T) {
	for _, name := range []string{"Content-Type", "User-Agent", "Te", "Connection", "Transfer-Encoding"} {
		_, err := load.Run(t.Context(), load.Config{Target: "grpc://127.0.0.1:1/d?k=v", Header: http.Header{name: {"x"}}, Workers: 1, Requests: 1})
		if want := `load: header = "` + name + `": must be left out: gRPC sets it, or has no such field`; err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
	}
}
