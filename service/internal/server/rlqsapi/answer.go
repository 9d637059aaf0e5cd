package rlqsapi

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// A bucket has the use of a key by a leaf.
type bucket struct {
	reported time.Time              // guarded by API.mu
	wants    float64                // requests a second
	ttl      time.Duration          // of the last assignment
	has      float64                // of the last assignment
	sent     *envoytype.TokenBucket // of the last assignment; nil if it was none
}

// answer takes the reports of a leaf, and returns its assignments.
func (a *API) answer(ctx context.Context, session *token.Session, l *proxy, reports *rlqs.RateLimitQuotaUsageReports) ([]*rlqs.RateLimitQuotaResponse_BucketAction, error) {
	if d := reports.GetDomain(); d != "" {
		l.domain = d
	}
	switch {
	case l.domain == "":
		return nil, status.Error(codes.InvalidArgument, "the first report of a stream must have a domain")
	case len(l.domain) > a.cfg.MaxKey: // else each bucket would take the time to make a key of it
		return nil, status.Errorf(codes.InvalidArgument, "the domain has more than %d bytes", a.cfg.MaxKey)
	}
	if session != nil && !session.Known() {
		return nil, errUnknown
	}
	var actions []*rlqs.RateLimitQuotaResponse_BucketAction
	for _, usage := range reports.GetBucketQuotaUsages() {
		a.stats.reports.Add(1)
		action, err := a.assign(ctx, session, l, usage)
		if err != nil {
			a.stats.refused.Add(1)
			continue
		}
		if action != nil {
			action.BucketId = usage.GetBucketId()
			actions = append(actions, action)
		}
	}
	return actions, nil
}

// errRefused is the error of a report that gets no answer.
var errRefused = errors.New("rlqsapi: no answer")

// assign takes one report. The action is nil if there is nothing to say yet.
func (a *API) assign(ctx context.Context, session *token.Session, l *proxy, usage *rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage) (*rlqs.RateLimitQuotaResponse_BucketAction, error) {
	key, err := decider.ParseKey(keyOf(l.domain, usage.GetBucketId().GetBucket()), a.cfg.MaxKey)
	if err != nil {
		return nil, err
	}
	if session != nil {
		if err := session.Authorize(token.Decide, key); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	b, last, err := a.reported(l, key, now)
	if err != nil {
		return nil, err
	}
	allowed, denied := usage.GetNumRequestsAllowed(), usage.GetNumRequestsDenied()
	elapsed := now.Sub(last)
	switch {
	case last.IsZero():
		elapsed = usage.GetTimeElapsed().AsDuration()
		if elapsed > 0 { // an assignment of a process that was before this one
			b.has = float64(allowed) / elapsed.Seconds()
		}
		elapsed = max(elapsed, time.Second)
	case elapsed > b.ttl:
		b.has, b.sent = 0, nil // it is over
	}
	b.measure(float64(allowed)+float64(denied), max(elapsed, time.Millisecond))
	got, ttl, err := a.exchange(ctx, l.name, leaf.Report{Key: key, Used: int(min(allowed, math.MaxInt32)), Wants: b.wants, Has: b.has})
	if err != nil {
		return nil, err
	}
	if b.ttl != ttl {
		b.ttl = ttl
		a.assigned(ttl)
	}
	if got.Learning {
		return nil, nil
	}
	return b.action(got, ttl), nil
}

// keepShare is the change of a share below which a proxy keeps what it has.
const keepShare = 0.1

// exchange reports the use of one key, and returns the assignment with its time to live.
func (a *API) exchange(ctx context.Context, name string, r leaf.Report) (leaf.Assignment, time.Duration, error) {
	x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: []leaf.Report{r}}, Single: true, Keep: keepShare}
	var got decider.LeafAnswer
	if err := a.decider.Exchange(ctx, &x, &got); err != nil {
		return leaf.Assignment{}, 0, err
	}
	if got.Assignments[0].Error != "" {
		return leaf.Assignment{}, 0, errRefused
	}
	return got.Assignments[0], time.Duration(got.TTLMS) * time.Millisecond, nil
}

// keyOf returns the key of a bucket: a descriptor of its entries, by their names.
func keyOf(domain string, id map[string]string) string {
	var entries []descriptor.Entry
	for _, name := range slices.Sorted(maps.Keys(id)) {
		entries = append(entries, descriptor.Entry{Key: name, Value: id[name]})
	}
	return string(descriptor.Append(nil, domain, entries))
}

// measure updates what the bucket wants: at once if that has grown, else by half of the
// difference.
func (b *bucket) measure(requests float64, elapsed time.Duration) {
	rate := requests / elapsed.Seconds()
	b.wants = max(rate, (b.wants+rate)/2)
}

// action returns an assignment in Envoy's terms, and keeps what it is.
func (b *bucket) action(got leaf.Assignment, ttl time.Duration) *rlqs.RateLimitQuotaResponse_BucketAction {
	b.has = got.Rate
	strategy := &envoytype.RateLimitStrategy{}
	tokens := tokenBucket(got.Rate, got.Burst)
	switch {
	case got.Unlimited:
		strategy.Strategy = &envoytype.RateLimitStrategy_BlanketRule_{BlanketRule: envoytype.RateLimitStrategy_ALLOW_ALL}
		tokens = nil
	case tokens == nil:
		strategy.Strategy = &envoytype.RateLimitStrategy_BlanketRule_{BlanketRule: envoytype.RateLimitStrategy_DENY_ALL}
	default:
		tokens = distinct(tokens, b.sent)
		strategy.Strategy = &envoytype.RateLimitStrategy_TokenBucket{TokenBucket: tokens}
	}
	b.sent = tokens
	return &rlqs.RateLimitQuotaResponse_BucketAction{
		BucketAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
			QuotaAssignmentAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
				AssignmentTimeToLive: durationpb.New(ttl.Truncate(time.Second)), RateLimitStrategy: strategy,
			},
		},
	}
}

// fills are the intervals of token buckets, in seconds. Envoy takes whole seconds only.
var fills = []float64{1, 10, 60, 3600, 86400, 365 * 86400}

// whole rounds down, but not a number that only the arithmetic has made less than whole.
func whole(x float64) float64 { return math.Floor(x * (1 + 1e-9)) }

// tokenBucket returns a bucket with a rate of at most that many tokens a second, and less
// than 1 % below unless that would take more than a year to fill; nil if no token comes in
// a year.
func tokenBucket(rate, burst float64) *envoytype.TokenBucket {
	for i, seconds := range fills {
		n := whole(rate * seconds)
		if n < 100 && i < len(fills)-1 {
			continue
		}
		if n < 1 {
			return nil
		}
		return &envoytype.TokenBucket{
			MaxTokens:     uint32(min(max(whole(burst), 1), math.MaxUint32)),
			TokensPerFill: wrapperspb.UInt32(uint32(min(n, math.MaxUint32))),
			FillInterval:  durationpb.New(time.Duration(seconds) * time.Second),
		}
	}
	return nil
}

// distinct returns a bucket that Envoy tells from the last one if their rates differ: Envoy
// does not compare the seconds of intervals (1.40, protoTokenBucketsEq in
// global_client_impl.cc).
func distinct(b, last *envoytype.TokenBucket) *envoytype.TokenBucket {
	same := last != nil && b.GetMaxTokens() == last.GetMaxTokens() && b.GetTokensPerFill().GetValue() == last.GetTokensPerFill().GetValue()
	if same && b.GetFillInterval().GetSeconds() != last.GetFillInterval().GetSeconds() {
		b.TokensPerFill.Value--
	}
	return b
}
