package grpcapi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
)

// A call ends if its message does not come, and the connection serves others.
func TestSlowMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		r := newRig(t, grpcapi.Config{BodyTimeout: limit}, config.RateLimitOptions{}, rules)
		for _, tt := range []struct {
			method string
			bound  time.Duration // of the call, by its client; zero: none
			want   time.Duration
		}{
			{rls.RateLimitService_ShouldRateLimit_FullMethodName, 0, limit},
			{rls.RateLimitService_ShouldRateLimit_FullMethodName, time.Hour, limit},
			{rls.RateLimitService_ShouldRateLimit_FullMethodName, time.Second, time.Second},
			{healthpb.Health_Check_FullMethodName, 0, limit},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			if tt.bound > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), tt.bound)
			}
			s, err := r.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, tt.method)
			testrig.Must(t, err)
			start := time.Now()
			err = s.RecvMsg(new(rls.RateLimitResponse))
			if took := time.Since(start); status.Code(err) != codes.DeadlineExceeded || took != tt.want {
				t.Errorf("%s, bound by its client to %v: %v after %v: want %v", tt.method, tt.bound, err, took, tt.want)
			}
			cancel()
		}
		streams := r.api.NewServer()
		rlqsapi.New(r.server, rlqsapi.Config{}).Register(streams)
		quotas := rlqs.NewRateLimitQuotaServiceClient(dial(t, streams))
		silent, err := quotas.StreamRateLimitQuotas(t.Context())
		testrig.Must(t, err)
		reporting, err := quotas.StreamRateLimitQuotas(t.Context())
		testrig.Must(t, err)
		testrig.Must(t, reporting.Send(&rlqs.RateLimitQuotaUsageReports{Domain: "edge"}))
		start := time.Now()
		_, err = silent.Recv()
		if took := time.Since(start); status.Code(err) != codes.DeadlineExceeded || took != limit {
			t.Errorf("a stream without a message: %v after %v: want %v", err, took, limit)
		}
		time.Sleep(limit)
		if err := reporting.Context().Err(); err != nil {
			t.Errorf("a stream with a message: %v", err)
		}
		watch, err := healthpb.NewHealthClient(r.conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		testrig.Must(t, err)
		time.Sleep(2 * limit)
		if _, err := watch.Recv(); err != nil {
			t.Errorf("a watch ends: %v", err)
		}
		r.mustAsk(1, of("a", "1"))
	})
}

// The listener learns which connections have calls. Health checks do not count.
func TestSetIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, grpcapi.Config{}, config.RateLimitOptions{}, rules)
		var mu sync.Mutex
		var got []bool
		var conns []net.Conn
		s := r.api.NewServer(grpcapi.SetIdle(func(nc net.Conn, idle bool) {
			mu.Lock()
			defer mu.Unlock()
			got, conns = append(got, idle), append(conns, nc)
		}))
		quotas := rlqsapi.New(r.server, rlqsapi.Config{})
		quotas.Register(s)
		conn := dial(t, s)
		r.conn = conn
		expect := func(when string, want ...bool) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("%s: idle: %v: want %v", when, got, want)
			}
			got = nil
		}
		if _, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		expect("a watch")
		r.mustAsk(1, of("a", "1"))
		expect("a call", false, true)
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := rlqs.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx); err != nil {
			t.Fatal(err)
		}
		expect("a stream", false)
		r.mustAsk(1, of("a", "1"))
		expect("a call beside a stream")
		cancel()
		expect("the end of the stream", true)
		if len(conns) == 0 || slices.ContainsFunc(conns, func(nc net.Conn) bool { return nc != conns[0] }) {
			t.Errorf("the connections are %v", conns)
		}
	})
}

// A page of another origin, in a browser, takes no tokens.
func TestJSONOfOtherOrigins(t *testing.T) {
	h := newRig(t, grpcapi.Config{}, config.RateLimitOptions{}, rules).api.Handler(http.NotFoundHandler())
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "": 200} {
		q := httptest.NewRequest("POST", "/json", strings.NewReader(`{"domain":"edge","descriptors":[{}]}`))
		if site != "" {
			q.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, q); w.Code != want {
			t.Errorf("%q: %d, want %d", site, w.Code, want)
		}
	}
}

// A body of JSON counts with the memory that it takes.
func TestMemoryOfJSON(t *testing.T) {
	text := `{"domain":"edge","descriptors":[` + strings.Repeat("{},", 500) + `{}]}`
	for _, tt := range []struct{ times, want int }{{32, 503}, {70, 200}} {
		bodies := connlimit.NewLimit(connlimit.Bodies, int64(tt.times*len(text)))
		r := newRig(t, grpcapi.Config{Bodies: bodies}, config.RateLimitOptions{}, rules)
		w := httptest.NewRecorder()
		r.api.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(text)))
		if _, used, _ := bodies.Count(); w.Code != tt.want || used != 0 {
			t.Errorf("%d times the body: %d, %d bytes are held", tt.times, w.Code, used)
		}
	}
}

// Bodies of JSON count towards a bound.
func TestBodiesOfJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := connlimit.NewLimit(connlimit.Bodies, 600<<10) // for one of unknown length, as a client gets half
		r := newRig(t, grpcapi.Config{Bodies: bodies}, config.RateLimitOptions{}, rules)
		h := r.api.Handler(http.NotFoundHandler())
		post := func(body io.Reader) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("POST", "/json", body))
			return w
		}
		const text = `{"domain":"edge","descriptors":[{"entries":[{"key":"free"}]}]}`
		slow, end := io.Pipe()
		go post(slow)
		synctest.Wait()
		if w := post(io.MultiReader(strings.NewReader(text))); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("a second body of unknown length: %d %v", w.Code, w.Header())
		}
		if w := post(strings.NewReader(text)); w.Code != 200 {
			t.Errorf("a short body: %d %s", w.Code, w.Body)
		}
		end.Close()
		synctest.Wait()
		if _, used, _ := bodies.Count(); used != 0 {
			t.Errorf("%d bytes are held after the end", used)
		}
		if w := post(io.MultiReader(strings.NewReader(text))); w.Code != 200 {
			t.Errorf("after the end: %d %s", w.Code, w.Body)
		}
	})
}
