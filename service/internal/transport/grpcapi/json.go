package grpcapi

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weir-go/weir/service/internal/connlimit"
)

// Handler serves gRPC over HTTP/2, and the endpoints of envoyproxy/ratelimit over HTTP: POST
// /json and GET /healthcheck. All other requests are for next.
func (a *API) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isGRPC(r):
			a.limitBody(w)
			if r.URL.Path == unaryPath {
				a.serveUnary(w, r)
			} else {
				a.web.ServeHTTP(w, r)
			}
		case r.URL.Path == "/json" && r.Method == http.MethodPost:
			a.limitBody(w)
			a.serveJSON(w, r)
		case r.URL.Path == "/healthcheck" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			a.serveHealth(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isGRPC reports whether a request is of gRPC.
func isGRPC(r *http.Request) bool {
	contentType := r.Header["Content-Type"]
	return r.ProtoMajor == 2 && len(contentType) == 1 && strings.HasPrefix(contentType[0], "application/grpc")
}

// limitBody sets the time-out of a body. A ResponseWriter without time-outs returns an error,
// which is ignored.
func (a *API) limitBody(w http.ResponseWriter) {
	if a.cfg.BodyTimeout > 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.cfg.BodyTimeout))
	}
}

// serveJSON answers a RateLimitRequest as JSON: 200, or 429 if it is over its limit.
func (a *API) serveJSON(w http.ResponseWriter, r *http.Request) {
	if a.origins.Check(r) != nil {
		http.Error(w, "a browser sent this request for a page of another origin", http.StatusForbidden)
		return
	}
	answer, err := a.answerJSON(w, r)
	a.count(err)
	switch status.Code(err) {
	case codes.OK:
	case codes.Unauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, status.Convert(err).Message(), http.StatusUnauthorized)
		return
	case codes.PermissionDenied:
		http.Error(w, status.Convert(err).Message(), http.StatusForbidden)
		return
	case codes.Unavailable:
		w.Header().Set("Retry-After", "1")
		http.Error(w, status.Convert(err).Message(), http.StatusServiceUnavailable)
		return
	default:
		http.Error(w, http.StatusText(http.StatusBadRequest), http.StatusBadRequest)
		return
	}
	text, _ := protojson.Marshal(answer) // it has only texts that are UTF-8
	w.Header().Set("Content-Type", "application/json")
	if answer.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		a.over.Add(1)
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text) // a client that is gone needs no answer
}

// hold counts n bytes of a body until release is called, or returns an error if the client has
// too many.
func (a *API) hold(ctx context.Context, n int64) (release func(), err error) {
	if a.cfg.Bodies == nil {
		return func() {}, nil
	}
	client := connlimit.ClientOf(ctx)
	if !a.cfg.Bodies.Enter(client, n) {
		return nil, errBusy
	}
	return func() { a.cfg.Bodies.Leave(client, n) }, nil
}

// jsonMemory is the memory that a body of JSON takes, with the messages in it, in bytes for each
// of its bytes: an empty message is two, and a comma.
const jsonMemory = 32

func (a *API) answerJSON(w http.ResponseWriter, r *http.Request) (*rls.RateLimitResponse, error) {
	session, err := a.identifyHeader(r.Header["Authorization"])
	if err != nil {
		return nil, err
	}
	n := int64(maxMessage)
	if r.ContentLength >= 0 {
		n = min(n, r.ContentLength)
	}
	release, err := a.hold(r.Context(), n)
	if err != nil {
		return nil, err
	}
	defer release()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	parsed, err := a.hold(r.Context(), (jsonMemory-1)*int64(len(body)))
	if err != nil {
		return nil, err
	}
	defer parsed()
	var request rls.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	message, err := proto.Marshal(&request)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	c := a.calls.Get().(*call)
	defer a.forget(c)
	if err := c.decode(message); err != nil {
		return nil, err
	}
	if err := a.answer(r.Context(), c, session); err != nil {
		return nil, err
	}
	answer := new(rls.RateLimitResponse)
	return answer, proto.Unmarshal(c.out, answer)
}

// serveHealth answers as envoyproxy/ratelimit does: 200 OK, or 500 while the server drains.
func (a *API) serveHealth(w http.ResponseWriter, r *http.Request) {
	state, err := a.health.Check(r.Context(), &healthpb.HealthCheckRequest{Service: healthName})
	if err != nil || state.Status != healthpb.HealthCheckResponse_SERVING {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "OK")
}
