package rlqsapi_test

import (
	"math"
	"testing"
	"time"

	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weir-go/weir/service/internal/transport/rlqsapi"
)

// pushed returns the last rate that has come without a report: -1 if none has.
func (p *proxy) pushed() float64 {
	actions := p.answers()
	if len(actions) == 0 {
		return -1
	}
	s := actions[len(actions)-1].GetQuotaAssignmentAction().GetRateLimitStrategy()
	if b := s.GetTokenBucket(); b != nil {
		return float64(b.GetTokensPerFill().GetValue()) / b.GetFillInterval().AsDuration().Seconds()
	}
	if s.GetBlanketRule() == envoytype.RateLimitStrategy_DENY_ALL {
		return 0
	}
	return math.Inf(1)
}

// A proxy that has a part of another one's share gets its smaller assignment without a report.
// When it has reported, the other one gets a greater assignment without a report.
func TestSharesChangeWithoutAReport(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		time.Sleep(ttl)
		a, b := r.proxy(), r.proxy()
		if got := a.rate("shop", "x", 4000, 0); got != 1000 {
			t.Fatalf("alone, it has %v", got)
		}
		time.Sleep(5 * time.Second)
		if got := b.rate("shop", "x", 0, 4000); got != 0 {
			t.Fatalf("without a report of the first, the second one has %v", got)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := a.pushed(); got != 500 {
			t.Errorf("the first one hears of %v", got)
		}
		time.Sleep(3 * time.Second)
		if got := b.pushed(); got != -1 {
			t.Errorf("before a report of the first, the second one hears of %v", got)
		}
		a.rate("shop", "x", 4000, 0)
		time.Sleep(1100 * time.Millisecond)
		if got := b.pushed(); got != 500 {
			t.Errorf("after it, of %v", got)
		}
		time.Sleep(3 * time.Second)
		if got, other := a.pushed(), b.pushed(); got != -1 || other != -1 {
			t.Errorf("without a change, they hear of %v and %v", got, other)
		}
		a.end()
		b.end()
	})
}

// A report that may have been sent before the proxy got its assignment does not show that it
// has it.
func TestAReportThatCrossesAnAssignment(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		time.Sleep(ttl)
		a, b := r.proxy(), r.proxy()
		a.rate("shop", "x", 4000, 0)
		time.Sleep(time.Second)
		b.rate("shop", "x", 0, 4000)
		if got := a.rate("shop", "x", 1000, 3000); got != 500 {
			t.Fatalf("the first one has %v", got)
		}
		time.Sleep(100 * time.Millisecond)
		a.rate("shop", "x", 100, 300)
		if got := b.rate("shop", "x", 0, 4000); got != 0 {
			t.Errorf("the second one has %v while the first may have all", got)
		}
		time.Sleep(time.Second)
		a.rate("shop", "x", 500, 3500)
		if got := b.rate("shop", "x", 0, 4000); got != 500 {
			t.Errorf("then it has %v", got)
		}
		a.end()
		b.end()
	})
}

// A proxy that is connected, but silent, loses its share even if that has changed.
func TestASilentProxy(t *testing.T) {
	run(t, rlqsapi.Config{}, perKey, func(r *rig) {
		time.Sleep(ttl)
		a, b := r.proxy(), r.proxy()
		a.rate("shop", "x", 4000, 0)
		for i := range uint64(2*ttl/(5*time.Second) + 1) {
			b.rate("shop", "x", 0, 2500*(i%2)+500) // its share changes with each report
			time.Sleep(5 * time.Second)
		}
		if got := b.rate("shop", "x", 0, 20000); got != 1000 {
			t.Errorf("after two times to live, the other one has %v", got)
		}
		a.end()
		b.end()
	})
}

// A new bucket has half of what is free until the proxy tells what it wants, if no other proxy wants it.
func TestANewBucketKeepsItsHalf(t *testing.T) {
	run(t, rlqsapi.Config{}, shop(100, 10), func(r *rig) {
		time.Sleep(ttl)
		p := r.proxy()
		if got := p.rate("shop", "x", 1, 0); got != 50 {
			t.Errorf("it gets %v of 100", got)
		}
		time.Sleep(4 * time.Second)
		if got := p.pushed(); got != -1 {
			t.Errorf("before its next report, it hears of %v", got)
		}
		p.end()
	})
}
