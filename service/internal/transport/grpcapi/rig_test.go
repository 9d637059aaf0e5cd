package grpcapi_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
)

// A rig is an API with rules, and a client of it.
type rig struct {
	t      *testing.T
	server *server.Server
	api    *grpcapi.API
	conn   *grpc.ClientConn
	web    *grpc.ClientConn // over net/http
	// listener accepts the connections of conn, and webListener those of web.
	listener, webListener *bufconn.Listener
}

func newRig(t *testing.T, cfg grpcapi.Config, o config.RateLimitOptions, rules string) *rig {
	t.Helper()
	r, err := config.ParseWith("rules.yaml", []byte(rules), o)
	testrig.Must(t, err)
	s, err := server.New(server.Config{Rules: r})
	testrig.Must(t, err)
	api, err := grpcapi.New(s, cfg)
	testrig.Must(t, err)
	ln, srv := bufconn.Listen(1<<16), api.NewServer()
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	testrig.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	shared, web := bufconn.Listen(1<<16), &http.Server{Handler: api.Handler(http.NotFoundHandler()), Protocols: new(http.Protocols)}
	web.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = web.Serve(shared) }()
	t.Cleanup(func() { web.Close() })
	over, err := grpc.NewClient("passthrough:web", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return shared.DialContext(ctx) }))
	testrig.Must(t, err)
	t.Cleanup(func() { over.Close() })
	return &rig{t, s, api, conn, over, ln, shared}
}

// dial serves until the test ends, and returns a client.
func dial(t *testing.T, s *grpc.Server) *grpc.ClientConn {
	ln := bufconn.Listen(1 << 16)
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) }))
	testrig.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask asks for descriptors of the domain edge.
func (r *rig) ask(ctx context.Context, hits uint32, descriptors ...*common.RateLimitDescriptor) (*rls.RateLimitResponse, error) {
	return rls.NewRateLimitServiceClient(r.conn).ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", HitsAddend: hits, Descriptors: descriptors})
}

func (r *rig) mustAsk(hits uint32, descriptors ...*common.RateLimitDescriptor) *rls.RateLimitResponse {
	r.t.Helper()
	answer, err := r.ask(r.t.Context(), hits, descriptors...)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// of is a descriptor of keys and values.
func of(texts ...string) *common.RateLimitDescriptor {
	d := new(common.RateLimitDescriptor)
	for i := 0; i < len(texts); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: texts[i], Value: texts[i+1]})
	}
	return d
}

func hits(n uint64, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}
