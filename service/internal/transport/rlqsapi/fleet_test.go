package rlqsapi_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
)

// reportEvery is the time between two reports of Envoy 1.40.
const reportEvery = 5 * time.Second

// An envoy decides as Envoy 1.40 does: a new token bucket is full, a changed one is new.
type envoy struct {
	*proxy
	demand float64 // requests a second, of a Poisson process
	next   time.Time
	report time.Time // the next
	last   time.Time // report

	strategy        *envoytype.RateLimitStrategy
	tokens          float64
	filled          time.Time
	allowed, denied uint64 // since the last report
	passed          int    // since count
}

// An edge is Envoys in front of one server.
type edge struct {
	*rig
	random *rand.Rand
	envoys []*envoy
}

// start starts an Envoy with its first request.
func (e *edge) start(demand float64) {
	v := &envoy{proxy: e.proxy(), demand: demand, next: time.Now(), report: time.Now().Add(time.Duration(e.random.Int64N(int64(reportEvery)))), last: time.Now()}
	e.envoys = append(e.envoys, v)
	v.denied++
	v.send()
}

func (v *envoy) send() {
	now := time.Now()
	if err := v.Send(&rlqs.RateLimitQuotaUsageReports{Domain: "shop", BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId:    &rlqs.BucketId{Bucket: map[string]string{"user": "x"}},
		TimeElapsed: durationpb.New(now.Sub(v.last).Truncate(time.Second)), NumRequestsAllowed: v.allowed, NumRequestsDenied: v.denied,
	}}}); err != nil {
		v.t.Fatal(err)
	}
	v.last, v.allowed, v.denied = now, 0, 0
}

// take takes the assignments that have come.
func (v *envoy) take() {
	for _, a := range v.answers() {
		s := a.GetQuotaAssignmentAction().GetRateLimitStrategy()
		is, was := s.GetTokenBucket(), v.strategy.GetTokenBucket()
		if is != nil && (was == nil || is.GetMaxTokens() != was.GetMaxTokens() || is.GetTokensPerFill().GetValue() != was.GetTokensPerFill().GetValue()) {
			v.tokens, v.filled = float64(is.GetMaxTokens()), time.Now()
		}
		v.strategy = s
	}
}

// allow decides about a request.
func (v *envoy) allow() bool {
	b := v.strategy.GetTokenBucket()
	if b == nil {
		return v.strategy != nil && v.strategy.GetBlanketRule() == envoytype.RateLimitStrategy_ALLOW_ALL
	}
	rate := float64(b.GetTokensPerFill().GetValue()) / float64(b.GetFillInterval().GetSeconds())
	v.tokens = min(v.tokens+rate*time.Since(v.filled).Seconds(), float64(b.GetMaxTokens()))
	v.filled = time.Now()
	if v.tokens < 1 {
		return false
	}
	v.tokens--
	return true
}

// run lets time pass, and returns the rates of requests that each Envoy has let through.
func (e *edge) run(d time.Duration) (rates []float64, sum float64) {
	for _, v := range e.envoys {
		v.passed = 0
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		for _, v := range e.envoys {
			v.take()
			for ; v.demand > 0 && v.next.Before(time.Now()); v.next = v.next.Add(time.Duration(e.random.ExpFloat64() / v.demand * 1e9)) {
				if v.allow() {
					v.allowed++
					v.passed++
				} else {
					v.denied++
				}
			}
			if !v.report.After(time.Now()) {
				v.report = v.report.Add(reportEvery)
				v.send()
			}
		}
	}
	for _, v := range e.envoys {
		rates = append(rates, float64(v.passed)/d.Seconds())
		sum += rates[len(rates)-1]
	}
	return rates, sum
}

func shop(rate, burst int) []config.Rule {
	return []config.Rule{{Name: "users", Glob: "shop|*", Quota: config.Quota{Rate: config.Rate{Count: rate, Period: time.Second}, Burst: burst}}}
}

// fleet runs f with an edge, for several seeds, once the server knows what proxies have.
func fleet(t *testing.T, rules []config.Rule, seeds uint64, f func(t *testing.T, e *edge)) {
	for seed := range seeds {
		run(t, rlqsapi.Config{}, rules, func(r *rig) {
			e := &edge{rig: r, random: rand.New(rand.NewPCG(seed, 0))}
			time.Sleep(ttl)
			f(t, e)
			for _, v := range e.envoys {
				v.end()
			}
		})
	}
}

// seconds lets time pass, and returns what has passed in each second.
func (e *edge) seconds(n int) (sums, rates []float64) {
	rates = make([]float64, len(e.envoys))
	for range n {
		got, sum := e.run(time.Second)
		sums = append(sums, sum)
		for i, rate := range got {
			rates[i] += rate / float64(n)
		}
	}
	return sums, rates
}

// most returns the greatest sum over some seconds in a row, beyond a part of the rate.
func most(sums []float64, rate float64) (beyond float64) {
	now := 0.0
	for _, sum := range sums {
		now = max(now+sum-rate, 0)
		beyond = max(beyond, now)
	}
	return beyond
}

func TestSteadySkewedDemand(t *testing.T) {
	const limit, burst = 200, 200
	fleet(t, shop(limit, burst), 5, func(t *testing.T, e *edge) {
		for _, demand := range []float64{20, 150, 150} {
			e.start(demand)
		}
		e.run(30 * time.Second)
		sums, rates := e.seconds(120)
		used := rates[0] + rates[1] + rates[2]
		if used < 0.98*limit || used > 1.01*limit {
			t.Errorf("%.1f requests a second pass in all of %d", used, limit)
		}
		if beyond := most(sums, 1.01*limit); beyond > burst {
			t.Errorf("%.0f requests beyond the limit in a row: the burst is %d", beyond, burst)
		}
		if share := (used - rates[0]) / 2; rates[0] < 0.9*20 || math.Abs(rates[1]-share) > 0.02*share || math.Abs(rates[2]-share) > 0.02*share {
			t.Errorf("%.1f: want 20, and two with the same", rates)
		}
	})
}

// A proxy whose demand jumps 15 times over gets its new share when it has reported, and the
// others have.
func TestDemandJumps(t *testing.T) {
	const limit = 200
	fleet(t, shop(limit, limit), 10, func(t *testing.T, e *edge) {
		for _, demand := range []float64{20, 150, 150} {
			e.start(demand)
		}
		e.run(30*time.Second + time.Duration(e.random.Int64N(int64(reportEvery))))
		e.envoys[0].demand, e.envoys[0].next = 300, time.Now()
		served := 0.0 // not before it
		for at := 0.5; at <= 25; at += 0.5 {
			if rates, _ := e.run(500 * time.Millisecond); rates[0] < 0.85*limit/3 {
				served = at
			}
		}
		t.Logf("served after %.1f s", served)
		if limit := (2*reportEvery + 2*time.Second).Seconds(); served > limit {
			t.Errorf("the new share is served after %.1f s: want %.0f", served, limit)
		}
	})
}
