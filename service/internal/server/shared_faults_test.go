//go:build system

package server_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var faultSpan = flag.Duration("fault.span", 600*time.Millisecond, "how long a fault of TestSharedFaults lasts")

// Three nodes are under a load above the limit while their store has a fault. The faults
// alternate between Redis and Valkey; redislimit is tested on both under each.
func TestSharedFaults(t *testing.T) {
	for i, f := range redistest.Faults {
		engine := redistest.Engines[i%len(redistest.Engines)]
		t.Run(f.Name+"/"+engine, func(t *testing.T) {
			t.Parallel()
			f.Try(t, engine, *faultSpan, func(s *redistest.Store, i int, budget time.Duration) redistest.TrialInstance {
				return faultNode(t, s, i, budget)
			})
		})
	}
}

// storeURL returns the URL of a store, as an instance reaches it.
func storeURL(s *redistest.Store, instance int) string {
	addrs, query := s.Addrs(instance), url.Values{}
	for _, addr := range addrs[1:] {
		query.Add("addr", addr)
	}
	if s.MasterName != "" {
		query.Set("master_name", s.MasterName)
	}
	if s.Cluster {
		query.Set("cluster", "true")
	}
	return "redis://" + addrs[0] + "?" + query.Encode()
}

func faultNode(t *testing.T, s *redistest.Store, i int, budget time.Duration) redistest.TrialInstance {
	rules := fmt.Sprintf("rules:\n  - {name: load, glob: '*', rate: %d/s, burst: %d, max_wait: 1s}\n", redistest.TrialRate, redistest.TrialBurst)
	cfg := server.StoreConfig{Instances: redistest.TrialInstances, Known: *faultSpan / 2}
	cfg.Link.Timeout = budget
	node := shared(t, rules, storeURL(s, i), cfg)
	return redistest.TrialInstance{
		Take: func() (bool, string, error) {
			var v decider.Verdict
			err := node.Decide(context.Background(), &decider.Request{Key: "load", N: 1}, &v)
			return v.OK, v.Step.String(), err
		},
		Away: func() bool { return node.StoreStats().Away },
		Decisions: func() map[string]int {
			counts := map[string]int{}
			for step, n := range node.StoreStats().Decisions {
				if n > 0 {
					counts[decider.Step(step).String()] = int(n)
				}
			}
			return counts
		},
	}
}
