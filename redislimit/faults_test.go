//go:build system

package redislimit_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

var faultSpan = flag.Duration("fault.span", 600*time.Millisecond, "how long a fault of TestFaults lasts")

// Three instances are under a load above the limit while their store has a fault.
func TestFaults(t *testing.T) {
	for _, engine := range redistest.Engines {
		for _, f := range redistest.Faults {
			t.Run(engine+"/"+f.Name, func(t *testing.T) {
				t.Parallel()
				f.Try(t, engine, *faultSpan, func(s *redistest.Store, i int, budget time.Duration) redistest.TrialInstance {
					return faultInstance(t, s, i, budget)
				})
			})
		}
	}
}

func faultInstance(t *testing.T, s *redistest.Store, i int, budget time.Duration) redistest.TrialInstance {
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addrs(i), MasterName: s.MasterName, IsClusterMode: s.Cluster,
		ContextTimeoutEnabled: true, DialTimeout: time.Second, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	l := limiter(t, rdb, gcra.Per(redistest.TrialRate, time.Second, redistest.TrialBurst), redislimit.Config{
		Away: redislimit.Share, Instances: redistest.TrialInstances, Known: *faultSpan / 2, MaxWait: time.Second, Timeout: budget,
	})
	return redistest.TrialInstance{
		Take: func() (bool, string, error) {
			d, err := l.Take(context.Background(), redistest.Key, 1)
			return d.OK, d.Step.String(), err
		},
		Away: func() bool { return l.Stats().Away },
		Decisions: func() map[string]int {
			counts := map[string]int{}
			for step, n := range l.Stats().Decisions {
				if n > 0 {
					counts[redislimit.Step(step).String()] = int(n)
				}
			}
			return counts
		},
	}
}
