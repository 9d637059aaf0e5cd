//go:build system

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// transportEdge returns a server of each transport with envoyRules. The listener of callers serves gRPC.
func transportEdge(t *testing.T) []transported {
	t.Helper()
	_, file := writeRuntime(t, envoyRules)
	return serveTransports(t, "--rules", file, "--rls-algorithm", "fixed_window")
}

// limiter returns a client of grpc-go.
func (s transported) limiter() limiter {
	s.t.Helper()
	c := insecure.NewCredentials()
	if s.secure {
		c = credentials.NewTLS(s.ca.config(s.t, nil))
	}
	return limiterOver(s.t, s.host(), c)
}

// grpc-go gets the same answers from each transport: also for many calls at once, calls that it gives up, and
// methods that there are not.
func TestTransportGRPC(t *testing.T) {
	ok, over := rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT
	for _, s := range transportEdge(t) {
		l := s.limiter()
		for _, want := range []rls.RateLimitResponse_Code{ok, ok, over, over} {
			l.wants(want, "a")
		}
		l.wants(ok, strings.Repeat("long", 10_000)) // takes several frames
		if err := l.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/Missing", &rls.RateLimitRequest{}, &rls.RateLimitResponse{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: a method that there is not: %v", s.name(), err)
		}
		var failed atomic.Int64
		var calling sync.WaitGroup
		for i := range 50 {
			calling.Go(func() {
				for j := range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if (i+j)%8 == 0 {
						cancel()
					}
					if got, err := l.ask(ctx, "loaded"); ctx.Err() == nil && (err != nil || got != ok) {
						failed.Add(1)
					}
					cancel()
				}
			})
		}
		calling.Wait()
		if failed.Load() > 0 {
			t.Errorf("%s: %d calls failed", s.name(), failed.Load())
		}
		l.wants(over, "a")
	}
}

// A real Envoy gets the same answers from each transport, at the common port.
func TestTransportEnvoy(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "upstream") }))
	defer upstream.Close()
	for _, s := range transportEdge(t) {
		socket := ""
		if s.secure {
			socket = fmt.Sprintf(envoyTLS, s.caFile)
		}
		e := startEnvoyOver(t, socket, rlsFilter, portOf(strings.TrimPrefix(upstream.URL, "http://")), s.port())
		for i, want := range []int{200, 200, 429, 429} {
			if a := e.ask("a"); a.status != want || (a.body == "upstream") != (want == 200) {
				t.Errorf("%s, request %d: %d %q: want %d", s.name(), i, a.status, a.body, want)
			}
		}
		var failed atomic.Int64
		var loading sync.WaitGroup
		for range 20 {
			loading.Go(func() {
				for range 25 {
					if a, err := tryAsk(http.DefaultClient, "GET", e.url, "user", "loaded"); err != nil || a.status != 200 {
						failed.Add(1)
					}
				}
			})
		}
		loading.Wait()
		if ok, over, errors := e.stat("ok"), e.stat("over_limit"), e.stat("error"); failed.Load() > 0 || ok != 502 || over != 2 || errors != 0 {
			t.Errorf("%s: %d requests failed, Envoy counts %d ok, %d over limit, %d errors: want 502, 2, 0", s.name(), failed.Load(), ok, over, errors)
		}
	}
}
