package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// guarded serves callers over a transport with a token that allows all keys. It returns the addresses.
func guarded(t *testing.T, transport string) (public, rpc, resp string) {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	testrig.Must(t, os.WriteFile(tokens, []byte("tokens:\n- {name: a, token: "+secret+", keys: ['*'], allow: [decide, lease, debug]}\n"), 0o600))
	d, err := New(Config{
		LoadRules: func() (*config.Rules, error) {
			return config.Parse("rules.yaml", []byte("rules: [{glob: '*', rate: 1000000/s, concurrency: {limit: 100}}]"))
		},
		Tokens: tokens, Transport: transport, ClientTimeout: time.Minute, WatchInterval: time.Minute, MaxConnections: 100, Log: slog.New(slog.DiscardHandler),
	})
	testrig.Must(t, err)
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		testrig.Must(t, err)
		return ln
	}
	at := Listeners{Public: listen(), Admin: listen(), GRPC: listen(), RESP: listen()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = d.Run(ctx, at); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return at.Public.Addr().String(), at.GRPC.Addr().String(), at.RESP.Addr().String()
}

const secret = "the-secret-of-a-is-long"

// openRoutes are the routes that need no token.
var openRoutes = map[string]bool{"/healthz": true, "/openapi.json": true, "/healthcheck": true}

// routes returns the methods and paths of the API, as its description has them, and of others at the same listener.
func routes(t *testing.T, public string) (all [][2]string) {
	t.Helper()
	answer, err := http.Get("http://" + public + "/openapi.json")
	testrig.Must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testrig.Must(t, err)
	var doc struct {
		Paths map[string]map[string]any
	}
	testrig.Must(t, json.Unmarshal(text, &doc))
	for path, methods := range doc.Paths {
		path = strings.NewReplacer("{key}", "k", "{id}", "1", "{path}", "p").Replace(path)
		for _, method := range []string{"get", "post", "delete"} {
			if methods[method] != nil {
				all = append(all, [2]string{strings.ToUpper(method), path})
			}
		}
	}
	if len(all) < 20 {
		t.Fatalf("%v: want all routes of the API", all)
	}
	return append(all, [2]string{"GET", "/healthcheck"}, [2]string{"POST", "/json"})
}

// Every route of every stack refuses a request without a token, or with another, when there are tokens, except openRoutes.
func TestEveryStackRefuses(t *testing.T) {
	for _, transport := range []string{"std", "inline"} {
		t.Run(transport, func(t *testing.T) {
			public, rpc, resp := guarded(t, transport)
			all := routes(t, public)
			for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
				for _, route := range all {
					for _, bearer := range []string{"", "another-secret-that-is-long", secret} {
						for _, body := range []string{"", bodies[route[1]]} {
							status, said := ask(t, version, route[0], "http://"+public+route[1], bearer, body)
							refused := status == http.StatusUnauthorized || status == http.StatusInternalServerError && strings.Contains(said, "token") // gateways take 401 for their client's
							if want := bearer != secret && !openRoutes[route[1]]; refused != want && (want || body != "") {
								t.Errorf("%s %v, token %q, body %q: %d %s: refused: want %t", version, route, bearer, body, status, said, want)
							}
						}
					}
				}
			}
			for _, address := range []string{public, rpc} {
				if code := rateLimit(t, address); code != codes.Unauthenticated {
					t.Errorf("gRPC at %s: %v", address, code)
				}
			}
			if code := quotas(t, rpc); code != codes.Unauthenticated {
				t.Errorf("quotas: %v", code)
			}
			for _, method := range weirv1.WeirService_ServiceDesc.Methods {
				for bearer, want := range map[string]codes.Code{"": codes.Unauthenticated, secret: codes.InvalidArgument} {
					if code := weir(t, rpc, method.MethodName, bearer); code != want {
						t.Errorf("weir.v1 %s, token %q: %v: want %v", method.MethodName, bearer, code, want)
					}
				}
			}
			for _, method := range weirv1.WeirService_ServiceDesc.Streams {
				if code := weir(t, rpc, method.StreamName, ""); code != codes.Unauthenticated {
					t.Errorf("weir.v1 %s: %v", method.StreamName, code)
				}
			}
			if said := say(t, resp, "CL.THROTTLE k 1 1 1\r\n"); !strings.HasPrefix(said, "-NOAUTH") {
				t.Errorf("RESP: %s", said)
			}
			if said := say(t, public, "GET "+wire.LeafPath+" HTTP/1.1\r\nHost: weir\r\nConnection: Upgrade\r\nUpgrade: weir-peer/1\r\n\r\n"); !strings.HasPrefix(said, "HTTP/1.1 403") {
				t.Errorf("the link of a leaf: %s", said)
			}
		})
	}
}

// bodies has the bodies that routes read before they know the keys.
var bodies = map[string]string{
	"/rate":         `{"requests":[{"key":"k"}]}`,
	"/assign":       `{"leaf":"l","reports":[{"key":"k"}]}`,
	"/json":         `{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]}`,
	"/rate/k":       "ignored",
	"/lease/k":      "ignored",
	"/healthz":      "ignored",
	"/openapi.json": "ignored",
}

// ask sends a request.
func ask(t *testing.T, version, method, url, bearer, body string) (status int, said string) {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	defer transport.CloseIdleConnections()
	transport.Protocols.SetHTTP1(version == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(version == "HTTP/2.0")
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	testrig.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Weir-Key", "k") // of /check
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	answer, err := transport.RoundTrip(r)
	testrig.Must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testrig.Must(t, err)
	return answer.StatusCode, string(text)
}

func dialRPC(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	testrig.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func rateLimit(t *testing.T, address string) codes.Code {
	t.Helper()
	_, err := rls.NewRateLimitServiceClient(dialRPC(t, address)).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "d"})
	return status.Code(err)
}

// weir calls a method of weir.v1 with an empty message, or one that is a list of an empty one.
func weir(t *testing.T, address, method, bearer string) codes.Code {
	t.Helper()
	ctx := t.Context()
	if bearer != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer)
	}
	request := proto.Message(&weirv1.DecideRequest{})
	if method == "Batch" {
		request = &weirv1.BatchRequest{Requests: []*weirv1.BatchItem{{}}}
	}
	return status.Code(dialRPC(t, address).Invoke(ctx, "/"+weirv1.WeirService_ServiceDesc.ServiceName+"/"+method, request, new(weirv1.ReturnLeaseResponse)))
}

func quotas(t *testing.T, address string) codes.Code {
	t.Helper()
	stream, err := rlqs.NewRateLimitQuotaServiceClient(dialRPC(t, address)).StreamRateLimitQuotas(t.Context())
	testrig.Must(t, err)
	_, err = stream.Recv()
	return status.Code(err)
}

// say returns the first line of the answer to a text.
func say(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	testrig.Must(t, err)
	defer conn.Close()
	fmt.Fprint(conn, text)
	said, err := bufio.NewReader(conn).ReadString('\n')
	testrig.Must(t, err)
	return said
}
