package decidertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi"
	"github.com/weir-go/weir/service/internal/transport/weirapi/weirv1"
)

// newGRPC returns a client of weir.v1 of a node that counts in memory.
func newGRPC(t *testing.T, rules *config.Rules) (*node, error) {
	behind, err := newMemory(t, rules)
	if err != nil {
		return nil, err
	}
	s, network := grpc.NewServer(), testrig.Listen()
	weirapi.New(behind.Decider, weirapi.Config{MaxLimit: 1000, MaxQueue: 1000}).Register(s)
	go func() { _ = s.Serve(network) }()
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:weir", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return network.Dial(ctx, "", "") }))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	behind.Decider = overGRPC{c: weirv1.NewWeirServiceClient(conn)}
	return behind, nil
}

// newHTTP returns a client of the API over HTTP of a node that counts in memory.
func newHTTP(t *testing.T, rules *config.Rules) (*node, error) {
	behind, err := newMemory(t, rules)
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(behind.Decider, httpapi.Config{MaxLimit: 1000, MaxQueue: 1000})
	if err != nil {
		return nil, err
	}
	network := testrig.Serve(t, &http.Server{Handler: api})
	transport := &http.Transport{DialContext: network.Dial}
	t.Cleanup(transport.CloseIdleConnections)
	behind.Decider = overHTTP{c: &http.Client{Transport: transport}}
	return behind, nil
}

// overWire has what the protocols of callers do not ask.
type overWire struct{}

func (overWire) Descriptors(context.Context, []decider.Request, bool, []decider.Verdict) (bool, error) {
	return false, errNotAsked
}
func (overWire) AppendGrantID(b []byte, g decider.Grant, _ string) []byte { return append(b, g.ID...) }
func (overWire) Exchange(context.Context, *decider.LeafExchange, *decider.LeafAnswer) error {
	return errNotAsked
}
func (overWire) Explain(context.Context, string) (decider.Explanation, error) {
	return decider.Explanation{}, errNotAsked
}
func (overWire) Top(context.Context, int) ([]decider.Seen, error) { return nil, errNotAsked }

// reasonNamed returns a reason by its name in answers.
func reasonNamed(name string) weir.Reason {
	for r := range weir.Recovering + 1 {
		if r != 0 && r.String() == name {
			return r
		}
	}
	return 0 // batch_denied
}

// A quotaLeft has the tokens that a rule leaves, as an answer tells it.
type quotaLeft struct {
	rule string
	left int
}

// tell sets a Verdict to an answer.
func tell(v *decider.Verdict, ok bool, reason, denied string, retry time.Duration, quotas []quotaLeft) {
	*v = decider.Verdict{OK: ok, Waited: v.Waited, Place: v.Place, Grant: v.Grant}
	if !ok {
		v.Reason, v.RetryAfter = reasonNamed(reason), retry
		if retry == 0 && (v.Reason == weir.OverRate || v.Reason == weir.OverBurst) {
			v.RetryAfter = weir.Never // the answers do not tell when
		}
	}
	if quotas == nil && denied != "" { // of a batch
		quotas = []quotaLeft{{denied, 0}}
	}
	for i, q := range quotas {
		ref := &decider.RuleRef{Name: q.rule}
		if v.Answers = append(v.Answers, decider.Answer{Rule: ref, Decision: weir.Decision{Remaining: q.left}}); i == 0 {
			v.Rule = ref
		}
		if q.rule == denied && !ok {
			break
		}
	}
}

// known returns the error of a Decider for a text.
func known(text string) error {
	for _, err := range []error{decider.ErrNoGrant, decider.ErrNoLease, decider.ErrNoLeasing, decider.ErrNoRate} {
		if strings.HasPrefix(text, err.Error()) {
			return err
		}
	}
	return errors.New(text)
}

func pointer[T any](v T) *T { return &v }

// overGRPC is a Decider behind weir.v1.
type overGRPC struct {
	overWire
	c weirv1.WeirServiceClient
}

// failed returns the error of a Decider for one of a call.
func (overGRPC) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil && status.Code(err) != codes.NotFound {
		return ctx.Err()
	}
	return known(status.Convert(err).Message())
}

func (g overGRPC) told(v *decider.Verdict, d *weirv1.Decision) {
	var quotas []quotaLeft
	for _, q := range d.Quotas {
		quotas = append(quotas, quotaLeft{q.Rule, int(q.Remaining)})
	}
	if quotas == nil && d.Remaining != nil { // of a batch
		quotas = []quotaLeft{{"", int(d.GetRemaining())}}
	}
	v.Waited, v.Place, v.Grant = time.Duration(d.WaitedMs)*time.Millisecond, int(d.Place), decider.Grant{ID: d.RequestId}
	tell(v, d.Ok, strings.ToLower(strings.TrimPrefix(d.Reason.String(), "REASON_")), d.Rule, time.Duration(d.RetryAfterMs)*time.Millisecond, quotas)
}

func (g overGRPC) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if req.Quota != nil {
		return errNotAsked
	}
	r := &weirv1.DecideRequest{Key: req.Key, N: pointer(int32(req.N))}
	if req.Limit > 0 {
		r.MaxRequests = pointer(int32(req.Limit))
	}
	answer, err := g.c.Decide(ctx, r)
	if err != nil {
		return g.failed(ctx, err)
	}
	g.told(v, answer.Decision)
	return nil
}

func (g overGRPC) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	if req.Quota != nil {
		return errNotAsked
	}
	r := &weirv1.WaitRequest{Key: req.Key, N: pointer(int32(req.N))}
	if req.Limit > 0 {
		r.MaxRequests = pointer(int32(req.Limit))
	}
	if req.OwnQueue {
		r.MaxRequestsInQueue = pointer(int32(req.Queue))
	}
	if by, ok := ctx.Deadline(); ok {
		r.TimeoutMs = pointer(time.Until(by).Milliseconds())
		ctx = longer(ctx)
	}
	stream, err := g.c.Wait(ctx, r)
	for queued := false; err == nil; queued = true {
		var m *weirv1.WaitResponse
		if m, err = stream.Recv(); err == nil && m.GetDecision() != nil {
			if g.told(v, m.GetDecision()); v.Waited > 0 && !queued {
				return errors.New("it has waited, and was not queued")
			}
			return nil
		}
	}
	return g.failed(ctx, err)
}

// longer returns a context that is cancelled with another, and has no deadline.
func longer(ctx context.Context) context.Context {
	free, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return free
}

func (g overGRPC) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	r := &weirv1.BatchRequest{All: all}
	for _, req := range reqs {
		if req.Quota != nil {
			return false, errNotAsked
		}
		r.Requests, r.Ids = append(r.Requests, &weirv1.BatchItem{Key: req.Key, N: pointer(int32(req.N))}), r.Ids || req.WantID
	}
	answer, err := g.c.Batch(ctx, r)
	if err != nil {
		return false, g.failed(ctx, err)
	}
	for i, d := range answer.Decisions {
		g.told(&verdicts[i], d)
	}
	return answer.Ok, nil
}

func (g overGRPC) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	done, err := g.c.Settle(ctx, &weirv1.SettleRequest{Key: key, RequestId: id, N: int32(n)})
	if err != nil {
		return decider.Settlement{}, g.failed(ctx, err)
	}
	return decider.Settlement{Was: int(done.Was), Charged: int(done.Charged)}, nil
}

func leaseTold(key string, n int, l *weirv1.Lease) decider.Lease {
	return decider.Lease{ID: l.LeaseId, Key: key, N: n, Token: uint64(l.Token), TTL: time.Duration(l.TtlMs) * time.Millisecond, Limit: int(l.Limit), Inflight: int(l.Inflight),
		Waited: time.Duration(l.WaitedMs) * time.Millisecond}
}

func (g overGRPC) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	d, err := g.acquire(ctx, req)
	switch {
	case err != nil:
		return decider.Lease{}, g.failed(ctx, err)
	case d.Lease == nil:
		return decider.Lease{}, weir.Reject(reasonNamed(strings.ToLower(strings.TrimPrefix(d.Reason.String(), "REASON_"))), time.Duration(d.RetryAfterMs)*time.Millisecond)
	}
	return leaseTold(req.Key, req.N, d.Lease), nil
}

func (g overGRPC) acquire(ctx context.Context, req decider.LeaseRequest) (*weirv1.LeaseDecision, error) {
	if !req.Wait {
		answer, err := g.c.AcquireLease(ctx, &weirv1.AcquireLeaseRequest{Key: req.Key, N: pointer(int32(req.N)), TtlMs: req.TTL.Milliseconds()})
		return answer.GetDecision(), err
	}
	r := &weirv1.WaitLeaseRequest{Key: req.Key, N: pointer(int32(req.N)), TtlMs: req.TTL.Milliseconds()}
	if by, ok := ctx.Deadline(); ok {
		r.TimeoutMs = pointer(time.Until(by).Milliseconds())
		ctx = longer(ctx)
	}
	stream, err := g.c.WaitLease(ctx, r)
	for err == nil {
		var m *weirv1.WaitLeaseResponse
		if m, err = stream.Recv(); err == nil && m.GetDecision() != nil {
			return m.GetDecision(), nil
		}
	}
	return nil, err
}

func (g overGRPC) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	answer, err := g.c.RenewLease(ctx, &weirv1.RenewLeaseRequest{Key: key, LeaseId: id, TtlMs: ttl.Milliseconds()})
	if err != nil {
		return decider.Lease{}, g.failed(ctx, err)
	}
	return leaseTold(key, unitsOf(id), answer.Lease), nil
}

// unitsOf returns the units of a lease by its id.
func unitsOf(id string) int {
	if _, n, ok := strings.Cut(id, "-"); ok {
		units, _ := strconv.Atoi(n)
		return units
	}
	return 1
}

var wireOutcomes = map[weir.Outcome]weirv1.Outcome{weir.Success: weirv1.Outcome_OUTCOME_SUCCESS, weir.Dropped: weirv1.Outcome_OUTCOME_DROPPED, weir.Ignored: weirv1.Outcome_OUTCOME_IGNORED}

func (g overGRPC) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	if _, err := g.c.ReturnLease(ctx, &weirv1.ReturnLeaseRequest{Key: key, LeaseId: id, Outcome: wireOutcomes[o]}); err != nil {
		return g.failed(ctx, err)
	}
	return nil
}

func (g overGRPC) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	x, err := g.c.Explain(ctx, &weirv1.ExplainRequest{Key: key})
	if err != nil {
		return decider.Explanation{}, g.failed(ctx, err)
	}
	span := func(ms int64) time.Duration {
		if ms < 0 {
			return weir.Never
		}
		return time.Duration(ms) * time.Millisecond
	}
	told := decider.Explanation{Key: x.Key, Allowed: x.Allowed, RetryAfter: span(x.RetryAfterMs), Reason: reasonNamed(strings.ToLower(strings.TrimPrefix(x.Reason.String(), "REASON_")))}
	for _, r := range x.Rules {
		st := decider.RuleState{Rule: &decider.RuleRef{Name: r.Name}, Remaining: int(r.Remaining), Used: int(r.Used), ResetAfter: span(r.ResetAfterMs), Allowed: r.Allowed,
			RetryAfter: span(r.RetryAfterMs), Waiting: int(r.Waiting), Denied: uint64(r.Denied)}
		if l := r.Lease; l != nil {
			st.Lease = &decider.LeaseState{Limit: int(l.Limit), Inflight: int(l.Inflight), Waiting: int(l.Waiting), Recovers: span(l.RecoversMs)}
		}
		told.Rules = append(told.Rules, st)
	}
	return told, nil
}

// overHTTP is a Decider behind the API over HTTP.
type overHTTP struct {
	overWire
	c *http.Client
}

// A wireAnswer has the members of all answers.
type wireAnswer struct {
	RequestID string `json:"request_id"`
	WaitedMS  int64  `json:"waited_ms"`
	Place     int
	Error     string
	Reason    string
	Rule      string
	RetryMS   int64 `json:"retry_after_ms"`
	OK        bool
	Remaining *int
	Results   []wireAnswer
	Was       int
	Charged   int
	LeaseID   string `json:"lease_id"`
	Token     uint64
	TTLMS     int64 `json:"ttl_ms"`
	Limit     int
	Inflight  int
	status    int
	quotas    []quotaLeft
}

var leftField = regexp.MustCompile(`"([^"]*)";r=(\d+)`)

// send sends a request. The error is one of a request that is neither allowed nor denied.
func (h overHTTP) send(ctx context.Context, method, path string, params url.Values, body string) (a wireAnswer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://weir"+path+"?"+params.Encode(), strings.NewReader(body))
	if err != nil {
		return a, err
	}
	answer, err := h.c.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return a, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, err
	}
	for _, m := range leftField.FindAllStringSubmatch(answer.Header.Get("RateLimit"), -1) {
		left, _ := strconv.Atoi(m[2])
		a.quotas = append(a.quotas, quotaLeft{m[1], left})
	}
	if a.status = answer.StatusCode; a.Error != "" && a.Reason == "" {
		return a, known(a.Error)
	}
	return a, nil
}

func (a *wireAnswer) verdict(v *decider.Verdict, ok bool) {
	v.Waited, v.Place, v.Grant = time.Duration(a.WaitedMS)*time.Millisecond, a.Place, decider.Grant{ID: a.RequestID}
	tell(v, ok, a.Reason, a.Rule, time.Duration(a.RetryMS)*time.Millisecond, a.quotas)
}

func (h overHTTP) ask(ctx context.Context, req *decider.Request, v *decider.Verdict, wait bool) error {
	if req.Quota != nil {
		return errNotAsked
	}
	params := url.Values{"n": {strconv.Itoa(req.N)}}
	if req.Limit > 0 {
		params.Set("maxRequests", strconv.Itoa(req.Limit))
	}
	if req.OwnQueue {
		params.Set("maxRequestsInQueue", strconv.Itoa(req.Queue))
	}
	ctx = waits(ctx, params, wait)
	a, err := h.send(ctx, "POST", "/rate/"+url.PathEscape(req.Key), params, "")
	if err == nil {
		a.verdict(v, a.status == http.StatusOK)
	}
	return err
}

// waits sets the parameters of a wait within a context, and returns the context of the request.
func waits(ctx context.Context, params url.Values, wait bool) context.Context {
	if !wait {
		return ctx
	}
	params.Set("canWait", "true")
	if by, ok := ctx.Deadline(); ok {
		params.Set("timeout", time.Until(by).String())
		return longer(ctx)
	}
	return ctx
}

func (h overHTTP) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return h.ask(ctx, req, v, false)
}

func (h overHTTP) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return h.ask(ctx, req, v, true)
}

func (h overHTTP) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	ids, body := false, ""
	for _, req := range reqs {
		if req.Quota != nil {
			return false, errNotAsked
		}
		body, ids = body+fmt.Sprintf(`,{"key":%q,"n":%d}`, req.Key, req.N), ids || req.WantID
	}
	a, err := h.send(ctx, "POST", "/rate", url.Values{"all": {strconv.FormatBool(all)}, "ids": {strconv.FormatBool(ids)}}, "["+strings.TrimPrefix(body, ",")+"]")
	if err != nil {
		return false, err
	}
	for i := range a.Results {
		one := &a.Results[i]
		if one.Remaining != nil {
			one.quotas = []quotaLeft{{"", *one.Remaining}}
		}
		one.verdict(&verdicts[i], one.OK)
	}
	return a.OK, nil
}

func (h overHTTP) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	a, err := h.send(ctx, "POST", "/rate/"+url.PathEscape(key)+"/"+url.PathEscape(id), url.Values{"n": {strconv.Itoa(n)}}, "")
	return decider.Settlement{Was: a.Was, Charged: a.Charged}, err
}

func (h overHTTP) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	params := url.Values{"n": {strconv.Itoa(req.N)}}
	if req.TTL > 0 {
		params.Set("ttl", req.TTL.String())
	}
	ctx = waits(ctx, params, req.Wait)
	a, err := h.send(ctx, "POST", "/lease/"+url.PathEscape(req.Key), params, "")
	if err == nil && a.LeaseID == "" {
		err = weir.Reject(reasonNamed(a.Reason), time.Duration(a.RetryMS)*time.Millisecond)
	}
	return a.lease(req.Key, req.N), err
}

func (a *wireAnswer) lease(key string, n int) decider.Lease {
	return leaseTold(key, n, &weirv1.Lease{LeaseId: a.LeaseID, Token: int64(a.Token), TtlMs: a.TTLMS, Limit: int64(a.Limit), Inflight: int64(a.Inflight), WaitedMs: a.WaitedMS})
}

func (h overHTTP) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	params := url.Values{}
	if ttl > 0 {
		params.Set("ttl", ttl.String())
	}
	a, err := h.send(ctx, "POST", "/lease/"+url.PathEscape(key)+"/"+url.PathEscape(id), params, "")
	return a.lease(key, unitsOf(id)), err
}

func (h overHTTP) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	_, err := h.send(ctx, "DELETE", "/lease/"+url.PathEscape(key)+"/"+url.PathEscape(id), url.Values{"outcome": {o.String()}}, "")
	return err
}
