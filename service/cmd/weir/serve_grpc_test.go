package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const edgeRules = "domain: edge\ndescriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 2}}\n"

// writeRuntime writes a directory of envoyproxy/ratelimit, and returns its root.
func writeRuntime(t *testing.T, rules string) (root, file string) {
	t.Helper()
	root = t.TempDir()
	file = filepath.Join(root, "ratelimit", "config", "edge.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return root, file
}

// limiter is a client of the rate-limit service.
type limiter struct {
	t    *testing.T
	conn *grpc.ClientConn
}

func newLimiter(t *testing.T, address string) limiter {
	t.Helper()
	return limiterOver(t, address, insecure.NewCredentials())
}

func limiterOver(t *testing.T, address string, c credentials.TransportCredentials) limiter {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:"+address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return limiter{t, conn}
}

// ask asks for one hit of a user.
func (l limiter) ask(ctx context.Context, user string) (rls.RateLimitResponse_Code, error) {
	entry := &common.RateLimitDescriptor_Entry{Key: "user", Value: user}
	answer, err := rls.NewRateLimitServiceClient(l.conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{
		Domain: "edge", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{entry}}},
	})
	return answer.GetOverallCode(), err
}

func (l limiter) wants(want rls.RateLimitResponse_Code, user string) {
	l.t.Helper()
	if got, err := l.ask(l.t.Context(), user); err != nil || got != want {
		l.t.Errorf("%s: %v, %v: want %v", user, got, err, want)
	}
}

func (s *served) grpcAddress() string {
	return regexp.MustCompile(`listen=(\S+)`).FindStringSubmatch(s.until(`msg=gRPC`))[1]
}

// The same limits are reached over gRPC, at its listener and at the common port, and over
// HTTP; the variables of envoyproxy/ratelimit name the files, which are loaded again when they
// change.
func TestServeRateLimitService(t *testing.T) {
	ok, over := rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT
	root, file := writeRuntime(t, edgeRules)
	t.Setenv("RUNTIME_ROOT", root)
	t.Setenv("RUNTIME_SUBDIRECTORY", "ratelimit")
	s := serving(t, "--grpc-listen", "127.0.0.1:0")
	own, common := newLimiter(t, s.grpcAddress()), newLimiter(t, strings.TrimPrefix(s.public, "http://"))
	own.wants(ok, "a")
	common.wants(ok, "a")
	own.wants(over, "a")
	common.wants(over, "a")
	if got := s.post("/rate/edge%7Cuser=a"); got.status != 429 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(edgeRules, "2}", "9}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.until("1 changed (edge.user: rate 2/d → 9/d")
	for range 9 {
		own.wants(ok, "b")
	}
	common.wants(over, "b")
	metrics := ask(t, http.DefaultClient, "GET", s.admin+"/metrics").body
	for _, want := range []string{`weir_rls_answers_total{code="OK"} 11`, `weir_rls_over_limit_total{rule="edge.user"} 3`, `weir_rls_total_hits_total{rule="edge.user"} 14`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics without %s", want)
		}
	}
	s.stop()
	if code := <-s.ended; code != 0 {
		t.Errorf("status %d", code)
	}
	if _, err := own.ask(t.Context(), "a"); status.Code(err) != codes.Unavailable {
		t.Errorf("after the end: %v", err)
	}
}

// A token that a reload removes ends with the next call, on open connections too.
func TestServeRateLimitTokens(t *testing.T) {
	_, file := writeRuntime(t, edgeRules)
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	write := func(text string) {
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokens:\n- {name: a, token: the-secret-of-a-is-long}\n")
	s := serving(t, "--grpc-listen", "127.0.0.1:0", "--rules", file, "--tokens", tokens)
	for _, address := range []string{s.grpcAddress(), strings.TrimPrefix(s.public, "http://")} {
		l := newLimiter(t, address)
		if _, err := l.ask(t.Context(), "a"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("without a token: %v", err)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer the-secret-of-a-is-long")
		if _, err := l.ask(ctx, "a"); err != nil {
			t.Error(err)
		}
		defer func() {
			if _, err := l.ask(ctx, "a"); status.Code(err) != codes.Unauthenticated {
				t.Errorf("a token that is gone: %v", err)
			}
		}()
	}
	write("tokens: []\n")
	s.until("msg=reloaded")
}

// Calls are answered while the server drains, and then clients are asked to leave.
func TestServeRateLimitDrains(t *testing.T) {
	t.Parallel()
	_, file := writeRuntime(t, edgeRules)
	s := serving(t, "--grpc-listen", "127.0.0.1:0", "--rules", file, "--drain-delay", "2s")
	l := newLimiter(t, s.grpcAddress())
	l.wants(rls.RateLimitResponse_OK, "a")
	s.stop()
	s.until("not ready: clients are asked to leave")
	l.wants(rls.RateLimitResponse_OK, "a")
	select {
	case code := <-s.ended:
		if code != 0 {
			t.Errorf("status %d", code)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end while a client is connected")
	}
}

// TLS and certificates of clients hold for gRPC, at both listeners. If the authority of
// clients changes, open connections end.
func TestServeRateLimitTLS(t *testing.T) {
	ca, other := newAuthority(t, "ours"), newAuthority(t, "another")
	files := newTLSFiles(t, ca)
	_, file := writeRuntime(t, edgeRules)
	s := serving(t, append(files.mutual(), "--grpc-listen", "127.0.0.1:0", "--rules", file)...)
	over := func(address string, signed *authority) limiter {
		return limiterOver(t, address, credentials.NewTLS(ca.config(t, signed)))
	}
	for _, address := range []string{s.grpcAddress(), strings.TrimPrefix(s.public, "https://")} {
		known := over(address, ca)
		known.wants(rls.RateLimitResponse_OK, address)
		for _, wrong := range []limiter{over(address, other), newLimiter(t, address)} {
			if _, err := wrong.ask(t.Context(), "a"); status.Code(err) != codes.Unavailable {
				t.Errorf("%s: %v: want a refusal", address, err)
			}
		}
		defer func() {
			for range 2 { // the first answer may ask the client to leave
				_, _ = known.ask(t.Context(), "b")
			}
			if _, err := known.ask(t.Context(), "b"); status.Code(err) != codes.Unavailable {
				t.Errorf("%s: %v: want a refusal by the new authority", address, err)
			}
			over(address, other).wants(rls.RateLimitResponse_OK, "of the new authority at "+address)
		}()
	}
	files.trust(other)
	s.until("msg=reloaded")
}

// Where envoyproxy/ratelimit gets its limits by xDS, weir would serve without them: it says so, and does not start.
func TestServeRefusesXDS(t *testing.T) {
	for _, tt := range []struct{ name, value, want string }{
		{"CONFIG_TYPE", "GRPC_XDS_SOTW", "$CONFIG_TYPE: weir serve gets no rules by xDS. Give files by --rules or $RUNTIME_ROOT, and unset the variable"},
		{"CONFIG_GRPC_XDS_SERVER_URL", "xds:18000", "$CONFIG_GRPC_XDS_SERVER_URL: weir serve gets no rules by xDS."},
		{"GRPC_XDS_BOOTSTRAP", "/etc/bootstrap.json", "$GRPC_XDS_BOOTSTRAP: weir serve gets no rules by xDS."},
		{"GRPC_XDS_BOOTSTRAP_CONFIG", "{}", "$GRPC_XDS_BOOTSTRAP_CONFIG: weir serve gets no rules by xDS."},
		{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a:secret", "$CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: weir serve gets no rules by xDS."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(tt.name, tt.value)
			code, _, stderr := weir(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", "nowhere.yaml")
			if code != 2 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) || strings.Contains(stderr, "secret") {
				t.Errorf("%d, %q: want 2 and %q", code, stderr, tt.want)
			}
		})
	}
	t.Setenv("CONFIG_TYPE", "FILE")
	t.Setenv("CONFIG_GRPC_XDS_SERVER_USE_TLS", "") // as if it were not set
	serving(t).end()
}
