package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// An rlsClient calls ShouldRateLimit of Envoy's rate limit service, with one descriptor.
type rlsClient struct {
	domain   template
	entries  [][2]template // keys and values
	metadata metadata.MD
	conns    [connections]*rlsConn
}

// An rlsConn is a connection with the error of its latest attempt to connect, or nil if
// that succeeded. gRPC tells callers only the text.
type rlsConn struct {
	*grpc.ClientConn
	connectError atomic.Pointer[error]
	attempt      atomic.Pointer[context.Context] // of the latest attempt to connect; gRPC ends it with the attempt
}

// reconnect bounds how long a target that is up again is still reported as down.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// ownGRPC are header fields that a gRPC client does not take from metadata.
var ownGRPC = []string{"Content-Length", "Content-Type", "Te", "Trailer", "User-Agent", "Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"}

func newRLSClient(_ context.Context, cfg Config, u *url.URL) (client, error) {
	r := &rlsClient{metadata: metadata.MD{}}
	if err := r.parse(u); err != nil {
		return nil, err
	}
	for name, values := range cfg.Header {
		if name == "Host" {
			continue
		}
		if slices.Contains(ownGRPC, name) {
			return nil, fmt.Errorf("load: header = %q: must be left out: gRPC sets it, or has no such field", name)
		}
		name = strings.ToLower(name)
		if strings.ContainsFunc(name, notInMetadata) || strings.HasPrefix(name, "grpc-") {
			return nil, fmt.Errorf("load: header = %q: must be a name of metadata: letters, digits, -, _ and ., and no grpc- before them", name)
		}
		r.metadata[name] = values
	}
	for i := range r.conns {
		conn, err := newRLSConn(cfg, u)
		if err != nil {
			r.close()
			return nil, fmt.Errorf("load: target = %q: %w", u, err)
		}
		r.conns[i] = conn
	}
	return r, nil
}

func newRLSConn(cfg Config, u *url.URL) (_ *rlsConn, err error) {
	c := &rlsConn{}
	security := insecure.NewCredentials()
	if u.Scheme == "grpcs" {
		security = credentials.NewTLS(cfg.TLS)
	}
	options := []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c.attempt.Store(&ctx)
			conn, err := cfg.Dial(ctx, "tcp", addr)
			if err != nil {
				c.connectError.Store(&err)
			}
			return conn, err
		}),
		grpc.WithTransportCredentials(observedCredentials{security, &c.connectError}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: cfg.Timeout}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	}
	if host := cfg.Header.Get("Host"); host != "" {
		options = append(options, grpc.WithAuthority(host))
	}
	c.ClientConn, err = grpc.NewClient("passthrough:///"+u.Host, options...)
	return c, err
}

func notInMetadata(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_.", r)
}

// parse reads the domain and the entries of the descriptor, in the order of the query.
func (r *rlsClient) parse(u *url.URL) error {
	domain := strings.TrimPrefix(u.Path, "/")
	r.domain = newTemplate(domain)
	for field := range strings.SplitSeq(u.RawQuery, "&") {
		key, value, _ := strings.Cut(field, "=")
		key, err := url.QueryUnescape(key)
		value, errValue := url.QueryUnescape(value)
		if err := errors.Join(err, errValue); err != nil {
			return fmt.Errorf("load: target = %q: %w", u, err)
		}
		if domain == "" || key == "" {
			return fmt.Errorf("load: target = %q: must have a domain and a descriptor, as in grpc://HOST:PORT/DOMAIN?KEY=VALUE&KEY2=VALUE2", u)
		}
		r.entries = append(r.entries, [2]template{newTemplate(key), newTemplate(value)})
	}
	return nil
}

func (r *rlsClient) exchange(ctx context.Context, n int) (statusCode int, reason string, err error) {
	descriptor := &ratelimitv3.RateLimitDescriptor{}
	for _, e := range r.entries {
		descriptor.Entries = append(descriptor.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: e[0].expand(n), Value: e[1].expand(n)})
	}
	var header, trailer metadata.MD
	conn := r.conns[n%len(r.conns)]
	answer, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(
		metadata.NewOutgoingContext(ctx, r.metadata),
		&rlsv3.RateLimitRequest{Domain: r.domain.expand(n), Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor}},
		grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		reason, err = conn.failure(err, len(header)+len(trailer) > 0)
		return 0, reason, err
	}
	switch decision := answer.GetOverallCode(); decision {
	case rlsv3.RateLimitResponse_OK:
		return statusAllowed, "", nil
	case rlsv3.RateLimitResponse_OVER_LIMIT:
		return statusDenied, "", nil
	default:
		return 0, decision.String(), nil
	}
}

// failure returns the reason of the server, if it has answered, or why there is no answer.
func (r *rlsConn) failure(err error, answered bool) (reason string, _ error) {
	switch c := status.Code(err); {
	case c == codes.DeadlineExceeded: // also of servers, which know the deadline
		return "", context.DeadlineExceeded
	case answered:
		return code.Code(c).String(), nil
	case c != codes.Unavailable:
		return "", err
	}
	if connect := r.connectError.Load(); connect != nil && *connect != nil {
		return "", *connect
	}
	if attempt := r.attempt.Load(); attempt != nil && (*attempt).Err() == context.DeadlineExceeded {
		return "", context.DeadlineExceeded // the target has accepted the connection, but does not read or answer
	}
	return "", io.ErrUnexpectedEOF
}

func (r *rlsClient) close() {
	for _, conn := range r.conns {
		if conn != nil {
			_ = conn.Close() // only an error if it is closed already
		}
	}
}

// observedCredentials store the result of handshakes.
type observedCredentials struct {
	credentials.TransportCredentials
	result *atomic.Pointer[error]
}

func (o observedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := o.TransportCredentials.ClientHandshake(ctx, authority, raw)
	o.result.Store(&err)
	return conn, info, err
}

func (o observedCredentials) Clone() credentials.TransportCredentials {
	return observedCredentials{o.TransportCredentials.Clone(), o.result}
}
