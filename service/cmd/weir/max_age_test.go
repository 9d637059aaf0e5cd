package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// Clients open other connections after --max-connection-age, over each protocol that has a
// goodbye, and lose no request.
func TestMaxConnectionAge(t *testing.T) {
	_, rules := writeRuntime(t, edgeRules)
	origin := echo(t)
	origin.Start()
	age := func(args ...string) []string { return append(args, "--max-connection-age", "1ms") }
	servers := map[string]*served{
		"serve":  serving(t, age("--rules", rules, "--get-decides", "--grpc-listen", "127.0.0.1:0")...),
		"inline": serving(t, age("--rules", rules, "--get-decides", "--transport", "inline")...),
		"proxy":  proxying(t, age("--origin", origin.URL)...),
	}
	for name, s := range servers {
		for _, http2 := range []bool{false, true} {
			for _, path := range []string{"/healthz", "/rate/a"} { // answered apart and at once by the inline transport
				var dials atomic.Int64
				transport := &http.Transport{Protocols: new(http.Protocols), DialContext: counted(&dials)}
				transport.Protocols.SetHTTP1(!http2)
				transport.Protocols.SetUnencryptedHTTP2(http2)
				client := &http.Client{Transport: transport}
				for n := 0; dials.Load() < 3; n++ {
					if n == 20_000 {
						t.Fatalf("%s, http2 = %t: %s: %d connections", name, http2, path, dials.Load())
					}
					resp, err := client.Get(s.public + path)
					fatal(t, err)
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
						t.Fatalf("%s: %s: %d, %v", name, path, resp.StatusCode, err)
					}
					resp.Body.Close()
				}
				transport.CloseIdleConnections()
			}
		}
	}
	dials := new(atomic.Int64)
	dial := counted(dials)
	conn, err := grpc.NewClient("passthrough:///"+servers["serve"].grpcAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) }))
	fatal(t, err)
	defer conn.Close()
	for n := 0; dials.Load() < 3; n++ {
		if n == 20_000 {
			t.Fatalf("gRPC: %d connections", dials.Load())
		}
		_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), new(grpc_health_v1.HealthCheckRequest), grpc.WaitForReady(true))
		fatal(t, err)
	}
	_, err = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), new(rls.RateLimitRequest), grpc.WaitForReady(true))
	if err == nil || !strings.Contains(err.Error(), "domain") {
		t.Errorf("%v: want an error about the domain", err)
	}
}

// counted returns a function that dials, and counts its calls.
func counted(dials *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}
