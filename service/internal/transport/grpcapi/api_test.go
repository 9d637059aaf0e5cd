package grpcapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/internal/testrig"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/grpcapi"
)

const rules = `
domain: edge
descriptors:
- {key: a, rate_limit: {unit: minute, requests_per_unit: 4, name: limit of a}}
- {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: free, rate_limit: {unlimited: true}}
- {key: trial, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}
- {key: quota, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 1}, metadata: {plan: {name: small, size: 1}, tags: [a]}}
- {key: quota2, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}, metadata: {plan: {name: large, price: 2}, tags: [b]}}
- {key: trial2, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 0}}
- {key: small, rate_limit: {unit: hour, requests_per_unit: 0, name: small}}
- {key: big, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: small}]}}
`

var fixed = config.RateLimitOptions{Algorithm: config.FixedWindow}

// show writes an answer in one line.
func show(a *rls.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(a.OverallCode.String())
	for _, s := range a.Statuses {
		fmt.Fprintf(&b, "; %v", s.Code)
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " of %d/%v %q", l.RequestsPerUnit, l.Unit, l.Name)
		}
		if s.LimitRemaining > 0 {
			fmt.Fprintf(&b, " %d left", s.LimitRemaining)
		}
		if s.DurationUntilReset != nil {
			fmt.Fprintf(&b, " reset %v", s.DurationUntilReset.AsDuration())
		}
	}
	for _, h := range a.ResponseHeadersToAdd {
		fmt.Fprintf(&b, "; %s: %s", h.Key, h.Value)
	}
	if m := a.DynamicMetadata; m != nil {
		fmt.Fprintf(&b, "; %v", m.AsMap())
	}
	return b.String()
}

// A step is a request and the answer to it.
type step struct {
	hits        uint32
	descriptors []*common.RateLimitDescriptor
	want        string
}

func list(d ...*common.RateLimitDescriptor) []*common.RateLimitDescriptor { return d }

func limited(n uint32, unit envoytype.RateLimitUnit, d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

// The answers are as those of envoyproxy/ratelimit. Virtual time begins with a year.
func TestAnswers(t *testing.T) {
	second, hour := envoytype.RateLimitUnit_SECOND, envoytype.RateLimitUnit_HOUR
	for _, tt := range []struct {
		rule  string
		cfg   grpcapi.Config
		o     config.RateLimitOptions
		steps []step
	}{
		{"fixed windows", grpcapi.Config{}, fixed, []step{
			{0, list(of("a", "1")), `OK; OK of 4/MINUTE "limit of a" 3 left reset 1m0s`},
			{2, list(of("a", "1"), of("b", "1")), `OK; OK of 4/MINUTE "limit of a" 1 left reset 1m0s; OK of 2/HOUR "" reset 1h0m0s`},
			{1, list(of("a", "1"), of("b", "1")), `OVER_LIMIT; OK of 4/MINUTE "limit of a" reset 1m0s; OVER_LIMIT of 2/HOUR "" reset 1h0m0s`},
			{1, list(hits(0, of("a", "1"))), `OK; OK of 4/MINUTE "limit of a" reset 1m0s`},
			{1, list(of("a", "1")), `OVER_LIMIT; OVER_LIMIT of 4/MINUTE "limit of a" reset 1m0s`},
			{1, list(hits(0, of("a", "1"))), `OVER_LIMIT; OVER_LIMIT of 4/MINUTE "limit of a" reset 1m0s`},
			{1, list(hits(4, of("a", "2")), hits(1<<63, of("a", "3"))), `OVER_LIMIT; OK of 4/MINUTE "limit of a" reset 1m0s; OVER_LIMIT of 4/MINUTE "limit of a" reset 1m0s`},
		}},
		{"token buckets", grpcapi.Config{}, config.RateLimitOptions{}, []step{
			{3, list(of("a", "1")), `OK; OK of 4/MINUTE "limit of a" 1 left reset 45s`},
			{2, list(of("a", "1")), `OVER_LIMIT; OVER_LIMIT of 4/MINUTE "limit of a" reset 15s`},
			{1, list(of("a", "1")), `OK; OK of 4/MINUTE "limit of a" reset 1m0s`},
			{9, list(of("a", "2")), `OVER_LIMIT; OVER_LIMIT of 4/MINUTE "limit of a"`},
		}},
		{"modes of rules", grpcapi.Config{}, fixed, []step{
			{1, list(of("free", "x"), of("none", "")), `OK; OK 4294967295 left; OK`},
			{1, list(of("trial", "x")), `OK; OK of 0/SECOND "" reset 1s`},
			{1, list(of("quota", "x")), `OK; OK of 1/WEEK "" reset 120h0m0s`},
			{1, list(of("small", "x")), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s`},
			{1, list(of("small", "x"), of("big", "x")), `OK; OK; OK of 9/HOUR "" 8 left reset 1h0m0s`},
			{1, list(of()), `OK; OK`},
		}},
		{"limits of requests", grpcapi.Config{}, config.RateLimitOptions{}, []step{
			{2, list(of("none", ""), limited(2, second, of("none", "x"))), `OK; OK; OK of 2/SECOND "" reset 1s`},
			{1, list(limited(2, second, of("none", "x")), limited(2, hour, of("none", "x"))), `OVER_LIMIT; OVER_LIMIT of 2/SECOND "" reset 1s; OK of 2/HOUR "" 1 left reset 30m0s`},
			{1, list(limited(0, hour, of("a", "x"))), `OVER_LIMIT; OVER_LIMIT of 0/HOUR ""`},
			{1, list(limited(9, hour, of("small", "x"))), `OK; OK of 9/HOUR "" 8 left reset 6m40s`},
			{3, list(limited(2, hour, of("trial", "x"))), `OVER_LIMIT; OVER_LIMIT of 2/HOUR ""`},
		}},
		{"limits of requests in fixed windows", grpcapi.Config{}, fixed, []step{
			{2, list(limited(2, second, of("none", "x")), limited(2, hour, of("none", "x"))), `OK; OK of 2/SECOND "" reset 1s; OK of 2/HOUR "" reset 1h0m0s`},
			{1, list(limited(4, hour, of("none", "x")), limited(3, hour, of("none", "x"))), `OVER_LIMIT; OK of 4/HOUR "" 1 left reset 1h0m0s; OVER_LIMIT of 3/HOUR "" reset 1h0m0s`},
			{1, list(hits(0, limited(4, hour, of("none", "x"))), hits(0, limited(3, hour, of("none", "x")))), `OVER_LIMIT; OK of 4/HOUR "" reset 1h0m0s; OVER_LIMIT of 3/HOUR "" reset 1h0m0s`},
			{1, list(hits(0, limited(0, hour, of("none", "y")))), `OK; OK of 0/HOUR "" reset 1h0m0s`},
			{1, list(limited(0, hour, of("none", "y"))), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "" reset 1h0m0s`},
			{1, list(hits(0, limited(0, hour, of("none", "y")))), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "" reset 1h0m0s`},
			{1, list(limited(2, hour, of("none", "y"))), `OK; OK of 2/HOUR "" reset 1h0m0s`},
			// With its unit, the rule counts too.
			{1, list(limited(9, hour, of("b", "x")), of("b", "x"), of("b", "x")), `OVER_LIMIT; OK of 9/HOUR "" 8 left reset 1h0m0s; OK of 2/HOUR "" reset 1h0m0s; OVER_LIMIT of 2/HOUR "" reset 1h0m0s`},
			{1, list(limited(0, hour, of("b", "y")), limited(9, hour, of("b", "y"))), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "" reset 1h0m0s; OK of 9/HOUR "" 7 left reset 1h0m0s`},
			{1, list(limited(9, second, of("b", "x"))), `OK; OK of 9/SECOND "" 8 left reset 1s`},
			// The modes of the rule do not count, and neither do unlimited rules.
			{1, list(limited(0, hour, of("trial", "x"))), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "" reset 1h0m0s`},
			{2, list(limited(1, hour, of("quota", "x"))), `OVER_LIMIT; OVER_LIMIT of 1/HOUR "" reset 1h0m0s`},
			{2, list(limited(1, hour, of("free", "x"))), `OVER_LIMIT; OVER_LIMIT of 1/HOUR "" reset 1h0m0s`},
		}},
		{"limits of requests in fixed windows, all or nothing", grpcapi.Config{All: true}, fixed, []step{
			{1, list(limited(3, hour, of("none", "x")), limited(2, hour, of("b", "x")), of("small", "x")),
				`OVER_LIMIT; OK of 3/HOUR "" 3 left reset 1h0m0s; OK of 2/HOUR "" 2 left reset 1h0m0s; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s`},
			{3, list(limited(3, hour, of("none", "x"))), `OK; OK of 3/HOUR "" reset 1h0m0s`},
			{2, list(of("b", "x")), `OK; OK of 2/HOUR "" reset 1h0m0s`},
		}},
		{"shadow mode for all", grpcapi.Config{Shadow: true}, fixed, []step{
			{1, list(of("small", "x")), `OK; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s`},
		}},
		{"quotas deny together", grpcapi.Config{}, fixed, []step{
			{1, list(of("quota", "x")), `OK; OK of 1/WEEK "" reset 120h0m0s`},
			{1, list(of("quota", "x")), `OVER_LIMIT; OVER_LIMIT of 1/WEEK "" reset 120h0m0s`},
			{1, list(of("quota", "x"), of("quota2", "x")), `OK; OVER_LIMIT of 1/WEEK "" reset 120h0m0s; OK of 2/HOUR "" 1 left reset 1h0m0s`},
			{2, list(of("quota", "x"), of("quota2", "x")), `OVER_LIMIT; OVER_LIMIT of 1/WEEK "" reset 120h0m0s; OVER_LIMIT of 2/HOUR "" reset 1h0m0s`},
			// Descriptors without quota_mode make no difference, unless they are beyond a limit.
			{1, list(of("quota", "x"), of("a", "1"), of("none", ""), of("free", "")), `OVER_LIMIT; OVER_LIMIT of 1/WEEK "" reset 120h0m0s; OK of 4/MINUTE "limit of a" 3 left reset 1m0s; OK; OK 4294967295 left`},
			{1, list(of("quota2", "y"), of("small", "1")), `OVER_LIMIT; OK of 2/HOUR "" 1 left reset 1h0m0s; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s`},
			// A quota in shadow mode is never beyond its limit.
			{1, list(of("quota", "x"), of("trial2", "x")), `OK; OVER_LIMIT of 1/WEEK "" reset 120h0m0s; OK of 0/HOUR "" reset 1h0m0s`},
			// A limit of the request is no quota.
			{1, list(limited(0, hour, of("quota", "z")), of("quota2", "z")), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "" reset 1h0m0s; OK of 2/HOUR "" 1 left reset 1h0m0s`},
		}},
		{"quota mode for all", grpcapi.Config{Quota: true}, fixed, []step{
			{1, list(of("small", "x"), of("b", "x")), `OK; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s; OK of 2/HOUR "" 1 left reset 1h0m0s`},
			{1, list(of("small", "x"), of("none", "")), `OK; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s; OK`},
			{1, list(of("small", "x"), of("free", "")), `OVER_LIMIT; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s; OK 4294967295 left`},
			{1, list(of("free", "")), `OK; OK 4294967295 left`},
		}},
		{"metadata of the rules that allow", grpcapi.Config{Metadata: true}, fixed, []step{
			{1, list(of("big", "x", "k", "v"), of("small", "x")), `OVER_LIMIT; OK; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s; map[descriptors:[map[entries:[big=x k=v]] map[entries:[small=x]]] domain:edge hitsAddend:1]`},
			{0, list(of("quota", "x"), of("quota2", "x")), `OK; OK of 1/WEEK "" reset 120h0m0s; OK of 2/HOUR "" 1 left reset 1h0m0s; map[descriptors:[map[entries:[quota=x]] map[entries:[quota2=x]]] domain:edge metadata:map[plan:map[name:small price:2 size:1] tags:[a]]]`},
			{0, list(of("quota", "x"), of("quota2", "x")), `OK; OVER_LIMIT of 1/WEEK "" reset 120h0m0s; OK of 2/HOUR "" reset 1h0m0s; map[descriptors:[map[entries:[quota=x]] map[entries:[quota2=x]]] domain:edge metadata:map[plan:map[name:large price:2] tags:[b]]]`},
			{1, list(limited(1, hour, of("quota", "y"))), `OK; OK of 1/HOUR "" reset 1h0m0s; map[descriptors:[map[entries:[quota=y]]] domain:edge hitsAddend:1]`},
		}},
		{"all or nothing", grpcapi.Config{All: true}, config.RateLimitOptions{}, []step{
			{1, list(of("a", "1"), of("small", "1")), `OVER_LIMIT; OK of 4/MINUTE "limit of a" 4 left reset 15s; OVER_LIMIT of 0/HOUR "small"`},
			{4, list(of("a", "1")), `OK; OK of 4/MINUTE "limit of a" reset 1m0s`},
		}},
		{"headers", grpcapi.Config{Headers: true, LimitHeader: "L", RemainingHeader: "Left", ResetHeader: "Reset"}, fixed, []step{
			{1, list(of("a", "1"), of("b", "1"), of("none", "")), `OK; OK of 4/MINUTE "limit of a" 3 left reset 1m0s; OK of 2/HOUR "" 1 left reset 1h0m0s; OK; L: 2; Left: 1; Reset: 3600`},
			{1, list(of("none", "")), `OK; OK`},
			{1, list(of("a", "1"), of("small", "1")), `OVER_LIMIT; OK of 4/MINUTE "limit of a" 2 left reset 1m0s; OVER_LIMIT of 0/HOUR "small" reset 1h0m0s; L: 0; Left: 0; Reset: 3600`},
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.cfg, tt.o, rules)
				for i, s := range tt.steps {
					if i%2 == 1 {
						r.conn, r.web = r.web, r.conn
					}
					if got := show(r.mustAsk(s.hits, s.descriptors...)); got != s.want {
						t.Errorf("step %d:\n got %s\nwant %s", i, got, s.want)
					}
				}
			})
		})
	}
}

// Errors have the texts of envoyproxy/ratelimit; invalid limits of requests are refused.
func TestErrors(t *testing.T) {
	r := newRig(t, grpcapi.Config{}, fixed, rules)
	for _, tt := range []struct {
		request *rls.RateLimitRequest
		code    codes.Code
		text    string
	}{
		{&rls.RateLimitRequest{Descriptors: list(of("a", "1"))}, codes.Unknown, "rate limit domain must not be empty"},
		{&rls.RateLimitRequest{Domain: "edge"}, codes.Unknown, "rate limit descriptor list must not be empty"},
		{&rls.RateLimitRequest{Domain: "edge", Descriptors: list(limited(1, 0, of("a", "1")))}, codes.InvalidArgument, "must have a count, a period"},
		{&rls.RateLimitRequest{Domain: strings.Repeat("x", 256<<10), Descriptors: list(of("a", "1"))}, codes.ResourceExhausted, "larger than max"},
	} {
		for name, conn := range map[string]*grpc.ClientConn{"grpc": r.conn, "net/http": r.web} {
			_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), tt.request)
			if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v: want %v: %s", name, err, tt.code, tt.text)
			}
		}
	}
	for _, unit := range []envoytype.RateLimitUnit{0, 1, 99} { // in domains without a file, nothing is limited
		request := &rls.RateLimitRequest{Domain: "other", Descriptors: list(limited(0, unit, of("a", "1")))}
		if a, err := rls.NewRateLimitServiceClient(r.conn).ShouldRateLimit(t.Context(), request); err != nil || show(a) != "OK; OK" {
			t.Errorf("unit %d: %v, %v", unit, a, err)
		}
	}
}

// A client without a known token is refused, and one with a token has its keys alone.
func TestTokens(t *testing.T) {
	set, err := token.Parse("tokens.yaml", []byte("tokens:\n- {name: a, token: the-secret-of-a-is-long, keys: ['edge|a=*']}\n"))
	testrig.Must(t, err)
	var guard token.Guard
	guard.Use(set)
	r := newRig(t, grpcapi.Config{Identify: guard.Identify}, fixed, rules)
	web := httptest.NewServer(r.api.Handler(http.NotFoundHandler()))
	defer web.Close()
	for _, tt := range []struct {
		header string
		key    string
		want   codes.Code
		status int
	}{
		{"", "a", codes.Unauthenticated, 401},
		{"Bearer wrong", "a", codes.Unauthenticated, 401},
		{"Bearer the-secret-of-a-is-long", "a", codes.OK, 200},
		{"Bearer the-secret-of-a-is-long", "b", codes.PermissionDenied, 403},
	} {
		for range 2 {
			_, err := r.ask(metadata.AppendToOutgoingContext(t.Context(), "authorization", tt.header), 1, of(tt.key, "x"))
			if status.Code(err) != tt.want {
				t.Errorf("%q, %q: %v: want %v", tt.header, tt.key, err, tt.want)
			}
			r.conn, r.web = r.web, r.conn
		}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", web.URL+"/json", strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"`+tt.key+`","value":"x"}]}]}`))
		req.Header.Set("Authorization", tt.header)
		resp, err := http.DefaultClient.Do(req)
		testrig.Must(t, err)
		if resp.Body.Close(); resp.StatusCode != tt.status {
			t.Errorf("%q, %q: %s: want %d", tt.header, tt.key, resp.Status, tt.status)
		}
	}
}

// JSON over HTTP, and the health check, are as those of envoyproxy/ratelimit.
func TestJSON(t *testing.T) {
	r := newRig(t, grpcapi.Config{}, fixed, rules)
	h := r.api.Handler(http.NotFoundHandler())
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/json", `{"domain":"edge","descriptors":[{"entries":[{"key":"free"}]}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK","limitRemaining":4294967295}]}`},
		{"POST", "/json", `{"domain":"edge","descriptors":[{"entries":[{"key":"small"}],"hitsAddend":"2"}]}`, 429, `"overallCode":"OVER_LIMIT"`},
		{"POST", "/json", `{"domain":"edge"}`, 400, "Bad Request"},
		{"POST", "/json", `{"domain":"edge","unknown":1}`, 400, "Bad Request"},
		{"POST", "/json", `{`, 400, "Bad Request"},
		{"GET", "/json", ``, 404, ""},
		{"GET", "/healthcheck", ``, 200, "OK"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
		if got := strings.ReplaceAll(w.Body.String(), " ", ""); w.Code != tt.status || !strings.Contains(got, strings.ReplaceAll(tt.want, " ", "")) {
			t.Errorf("%s %s %s: %d %s: want %d %s", tt.method, tt.path, tt.body, w.Code, got, tt.status, tt.want)
		}
	}
	r.api.Drain()
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/healthcheck", nil)); w.Code != 500 {
		t.Errorf("draining: %d", w.Code)
	}
}

// Clients find the services by reflection, and whether they serve by health checks.
func TestHealth(t *testing.T) {
	r := newRig(t, grpcapi.Config{}, fixed, rules)
	for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
		for _, want := range []healthpb.HealthCheckResponse_ServingStatus{healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_SERVING} {
			if got, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name}); err != nil || got.Status != want {
				t.Errorf("%q: %v, %v: want %v", name, got, err, want)
			}
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	testrig.Must(t, err)
	err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "envoy.service.ratelimit.v3.RateLimitService"}})
	testrig.Must(t, err)
	if got, err := stream.Recv(); err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// Requests are counted by rule, and near limits apart.
func TestHits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, grpcapi.Config{NearLimit: 0.5}, fixed, rules)
		for range 6 {
			r.mustAsk(1, of("a", "1"), of("trial", "1"), of("none", ""), limited(4, envoytype.RateLimitUnit_MINUTE, of("b", "1")), of("quota2", "1"))
		}
		got := map[string]grpcapi.Hits{}
		r.api.Hits(func(rule string, h grpcapi.Hits) { got[rule] = h })
		for _, rule := range []string{"edge.a", "own quota"} {
			if want := (grpcapi.Hits{Total: 6, Within: 4, Near: 2, Over: 2}); got[rule] != want {
				t.Errorf("%s: %+v: want %+v", rule, got[rule], want)
			}
		}
		if want := (grpcapi.Hits{Total: 6, Over: 6, Shadow: 6}); got["edge.trial"] != want {
			t.Errorf("%+v: want %+v", got["edge.trial"], want)
		}
		if want := (grpcapi.Hits{Total: 6, Within: 2, Near: 1, Over: 4}); got["edge.quota2"] != want {
			t.Errorf("of a quota: %+v: want %+v", got["edge.quota2"], want)
		}
		var answers bytes.Buffer
		r.api.Answers(func(code string, n uint64) { fmt.Fprintf(&answers, "%s %d ", code, n) })
		if answers.String() != "OVER_LIMIT 4 OK 2 " {
			t.Errorf("%s", &answers)
		}
	})
}
