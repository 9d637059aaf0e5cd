//go:build system

package server_test

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// storeTier returns a leaf of a store.
func storeTier(t *testing.T, name, rules, url string) *server.Tier {
	t.Helper()
	s := shared(t, rules, url, patient())
	tier, err := server.NewTier(server.Config{Rules: s.Rules()}, server.TierConfig{
		Name: name, Upstream: s, Assigner: s.NewAssigner(30 * time.Second), Timeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tier.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tier
}

// scripts returns how many scripts a server has run.
func scripts(s *redistest.Server) (n int) {
	for _, m := range regexp.MustCompile(`cmdstat_eval(?:sha)?:calls=(\d+)`).FindAllStringSubmatch(s.Do("INFO", "commandstats"), -1) {
		calls, _ := strconv.Atoi(m[1])
		n += calls
	}
	return n
}

// Leaves of a store share a hot key: they keep to its limit, share it fairly, and ask the store
// for at most one in a hundred decisions.
func TestStoreLeaves(t *testing.T) {
	for _, engine := range []string{"redis-server", "valkey-server"} {
		t.Run(engine, func(t *testing.T) {
			store := redistest.Start(t, engine)
			const rules = `rules: [{name: hot, glob: "*", rate: 1000/s, burst: 100}]`
			const leaves, length = 3, 6 * time.Second
			var allowed, late [leaves]atomic.Int64 // late: when the assignments follow the demand
			var decisions atomic.Int64
			var running sync.WaitGroup
			began := time.Now()
			for i := range leaves {
				tier := storeTier(t, fmt.Sprint("leaf-", i), rules, "redis://"+store.Addr)
				running.Go(func() {
					for tick := time.Duration(0); tick < length; tick += time.Millisecond {
						time.Sleep(time.Until(began.Add(tick)))
						if i == 0 && tick%(5*time.Millisecond) > 0 { // it wants less than the others
							continue
						}
						for range 1 + 4*i {
							var v decider.Verdict
							if err := tier.Decide(context.Background(), &decider.Request{Key: "api", N: 1}, &v); err != nil {
								t.Error(err)
							}
							decisions.Add(1)
							if v.OK {
								allowed[i].Add(1)
							}
							if v.OK && time.Since(began) > length/2 {
								late[i].Add(1)
							}
						}
					}
				})
			}
			running.Wait()
			took := time.Since(began).Seconds()
			sum := allowed[0].Load() + allowed[1].Load() + allowed[2].Load()
			if most := 100 + 1000*took + 100; float64(sum) > most { // the exact bucket has a burst, too
				t.Errorf("%d requests allowed in %.1f s: want at most %.0f", sum, took, most)
			}
			a, b := float64(late[1].Load()), float64(late[2].Load())
			if share := (float64(late[0].Load()) + a + b) / (1000 * (took - length.Seconds()/2)); share < .9 {
				t.Errorf("%.1f %% of the limit is used", 100*share)
			}
			t.Logf("allowed %d %d %d, of %d decisions, by %d scripts", allowed[0].Load(), allowed[1].Load(), allowed[2].Load(), decisions.Load(), scripts(store))
			if n := scripts(store); float64(n) > float64(decisions.Load())/100 {
				t.Errorf("%d scripts for %d decisions", n, decisions.Load())
			}
			if n := allowed[0].Load(); float64(n) < 200*took*.9 {
				t.Errorf("the leaf that wants 200/s gets %d in %.1f s", n, took)
			}
			if math.Abs(a-b) > .2*b {
				t.Errorf("two leaves that want more than their parts get %.0f and %.0f in the second half", a, b)
			}
		})
	}
}
