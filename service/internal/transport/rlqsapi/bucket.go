package rlqsapi

import (
	"math"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A bucket has the use of a key by a proxy. Its stream alone uses what is not guarded.
type bucket struct {
	id       *rlqs.BucketId
	reported time.Time // zero before the first report
	until    time.Time // the end of what the proxy has; guarded by API.mu

	requests uint64    // since measured
	measured time.Time // when wants was measured
	wants    float64   // requests a second

	unsure bool // the proxy may go on with an assignment that has come by another stream

	strategy *envoytype.RateLimitStrategy // of the last assignment; nil if there is none
	sent     time.Time                    // when it was sent
	has      float64                      // its rate
	burst    float64                      // its burst
	uses     float64                      // the greatest rate by which the proxy may decide now
}

const (
	// keepShare is the change of a share below which a proxy keeps what it has.
	keepShare = 0.01
	// keepBurst is the change of a burst below which a proxy keeps what it has.
	keepBurst = 0.2
	// acknowledged is how long before a report an assignment must have been sent for the report
	// to show that the proxy has it.
	acknowledged = 250 * time.Millisecond
	// reportEvery is the time between two reports of Envoy 1.40.
	reportEvery = 5 * time.Second
	// leastMeasured is the least time over which requests are counted to measure a rate.
	leastMeasured = time.Second
)

// report takes a report at an instant. What the proxy had before must not have ended, or
// have been forgotten: see forget.
func (b *bucket) report(now time.Time, usage *rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	allowed := usage.GetNumRequestsAllowed()
	elapsed := now.Sub(b.measured)
	first := b.reported.IsZero()
	if first {
		if elapsed = elapsedOf(usage); elapsed > 0 && (allowed > 0 || usage.GetNumRequestsDenied() == 0) {
			b.unsure, b.uses = true, float64(allowed)/elapsed.Seconds()
		}
		elapsed = max(elapsed, leastMeasured)
	}
	b.reported = now
	if b.requests += allowed + usage.GetNumRequestsDenied(); elapsed >= leastMeasured {
		b.measure(float64(b.requests) / elapsed.Seconds())
		b.requests, b.measured = 0, now
	}
	switch {
	case b.unsure && !first:
		b.uses = decider.AsAssigned
	case !b.unsure && now.Sub(b.sent) >= acknowledged:
		b.uses = b.has
	}
}

// elapsedOf returns the time since the last report, 0 if there was none. Envoy rounds it down to whole seconds, so that
// reportEvery is often 4 s. By such a time, several proxies would seem to use more than the limit together.
func elapsedOf(usage *rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage) time.Duration {
	elapsed := usage.GetTimeElapsed().AsDuration()
	if elapsed > 0 && elapsed < reportEvery && elapsed%time.Second == 0 {
		elapsed += time.Second
	}
	return elapsed
}

// measure updates what the bucket wants: at once if that has grown, else by half of the
// difference.
func (b *bucket) measure(rate float64) { b.wants = max(rate, (b.wants+rate)/2) }

// forget forgets an assignment that has ended.
func (b *bucket) forget() { b.strategy, b.has, b.uses, b.unsure = nil, 0, 0, false }

// assign takes an assignment at an instant, and reports whether it differs from the last one.
func (b *bucket) assign(now time.Time, got *leaf.Assignment) bool {
	grown, burst := got.Rate-b.has, b.burstOf(got)
	if b.strategy != nil && got.Unlimited == isAllowAll(b.strategy) && grown >= 0 && grown <= b.has*keepShare &&
		math.Abs(burst-b.burst) <= b.burst*keepBurst {
		return false
	}
	b.strategy = strategyOf(got, burst, b.strategy.GetTokenBucket())
	b.sent, b.has, b.burst = now, got.Rate, burst
	b.uses, b.unsure = max(b.uses, b.has), false
	return true
}

const (
	// drainedFor is the time in which a bucket that is always drained fills.
	drainedFor = 100 * time.Millisecond
	// drains is how many times its share a proxy must want to drain its bucket always.
	drains = 1.25
)

// burstOf returns how much the token bucket of an assignment holds, and starts with. Each change of
// an assignment gives a proxy a full bucket, so it is a small one if the proxy wants more than its share:
// while shares change because there are other proxies, and after an assignment that is not known.
func (b *bucket) burstOf(got *leaf.Assignment) float64 {
	if b.unsure && b.wants*(1-keepShare) > got.Rate || got.Leaves > 1 && b.wants > drains*got.Rate {
		return min(got.Burst, max(got.Rate*drainedFor.Seconds(), 4))
	}
	return got.Burst
}

// action returns the last assignment in Envoy's terms.
func (b *bucket) action(ttl time.Duration) *rlqs.RateLimitQuotaResponse_BucketAction {
	return &rlqs.RateLimitQuotaResponse_BucketAction{
		BucketId: b.id,
		BucketAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
			QuotaAssignmentAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
				AssignmentTimeToLive: durationpb.New(ttl.Truncate(time.Second)), RateLimitStrategy: b.strategy,
			},
		},
	}
}

func isAllowAll(s *envoytype.RateLimitStrategy) bool {
	rule, ok := s.GetStrategy().(*envoytype.RateLimitStrategy_BlanketRule_)
	return ok && rule.BlanketRule == envoytype.RateLimitStrategy_ALLOW_ALL
}

// strategyOf returns an assignment in Envoy's terms. The last token bucket may be nil.
func strategyOf(got *leaf.Assignment, burst float64, last *envoytype.TokenBucket) *envoytype.RateLimitStrategy {
	rule := envoytype.RateLimitStrategy_DENY_ALL
	if got.Unlimited {
		rule = envoytype.RateLimitStrategy_ALLOW_ALL
	} else if tokens := tokenBucket(got.Rate, burst); tokens != nil {
		return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_TokenBucket{TokenBucket: distinct(tokens, last)}}
	}
	return &envoytype.RateLimitStrategy{Strategy: &envoytype.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
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
