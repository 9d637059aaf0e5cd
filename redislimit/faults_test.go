//go:build external

package redislimit_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/redislimit"
)

var faultSpan = flag.Duration("fault.span", 600*time.Millisecond, "how long a fault of TestFaults lasts")

// The instances of TestFaults, and their limit on one key.
const (
	faultInstances = 3
	faultRate      = 100 // per second
	faultBurst     = 42
)

// Three instances are under a load above the limit while their store has a fault. Every call
// is answered, the decisions follow the ladder, and no more is allowed than docs/redis.md says.
func TestFaults(t *testing.T) {
	for _, engine := range redistest.Engines {
		for _, f := range redistest.Faults {
			t.Run(engine+"/"+f.Name, func(t *testing.T) {
				t.Parallel()
				newFaultTest(t, engine, f).run()
			})
		}
	}
}

type faultTest struct {
	*testing.T
	fault    redistest.Fault
	store    *redistest.Store
	limiters []*redislimit.Limiter
	load     *redistest.Load
}

func newFaultTest(t *testing.T, engine string, f redistest.Fault) *faultTest {
	ft := &faultTest{T: t, fault: f, store: f.Prepare(t, engine)}
	for i := range faultInstances {
		rdb := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: ft.store.Addrs(i), MasterName: ft.store.MasterName, IsClusterMode: ft.store.Cluster,
			ContextTimeoutEnabled: true, DialTimeout: time.Second, DialerRetries: 1,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		l := limiter(t, rdb, gcra.Per(faultRate, time.Second, faultBurst), redislimit.Config{
			Away: redislimit.Share, Instances: faultInstances, Known: *faultSpan / 2, MaxWait: time.Second, Timeout: ft.budget(i),
		})
		reach(t, l, redistest.Key, redislimit.Exact)
		ft.limiters = append(ft.limiters, l)
	}
	return ft
}

// degrades reports whether the fault keeps the store from deciding for an instance in time.
func (ft *faultTest) degrades(instance int) bool { return ft.fault.Away || instance < ft.fault.Cut }

// budget returns the Timeout of an instance. It is patient where the store should decide.
func (ft *faultTest) budget(instance int) time.Duration {
	if ft.degrades(instance) {
		return redislimit.DefaultTimeout
	}
	return 2 * time.Second
}

func (ft *faultTest) run() {
	stats := make([]redislimit.Stats, faultInstances)
	for i, l := range ft.limiters {
		stats[i] = l.Stats()
	}
	ft.load = redistest.StartLoad(8*faultInstances, 8*time.Millisecond, func(caller int) (bool, string, error) {
		d, err := ft.limiters[caller%faultInstances].Take(context.Background(), redistest.Key, 1)
		return d.OK, d.Step.String(), err
	})
	time.Sleep(*faultSpan / 2)
	begin := ft.load.Now()
	ft.store.Begin()
	time.Sleep(*faultSpan)
	for i := range ft.limiters {
		redistest.Until(ft, fmt.Sprintf("instance %d follows the ladder", i), func() error { return ft.ladder(i, begin) })
	}
	end := ft.load.Now()
	ft.store.End()
	for i := range ft.limiters {
		redistest.Until(ft, fmt.Sprintf("the store decides for instance %d", i), func() error { return ft.exact(i) })
	}
	recovered := ft.load.Now()
	time.Sleep(*faultSpan / 2)
	if err := ft.load.Stop(); err != nil {
		ft.Error(err)
	}
	ft.check(begin, end, recovered, stats)
}

// check compares the answers with the bounds of docs/redis.md and with Stats.
func (ft *faultTest) check(begin, end, recovered time.Duration, stats []redislimit.Stats) {
	before, during, after := ft.load.Answers(0, begin), ft.load.Answers(begin, recovered), ft.load.Answers(recovered, time.Hour)
	all := ft.load.Answers(0, time.Hour)
	excess, most := all.Excess(faultRate), ft.bound(all)
	ft.Logf("| %s | P99 %.0f, %.0f, %.0f ms before, during, after | slowest %.0f ms | %v | excess %.2f of %.2f bursts | back after %.1f s |", ft.fault.Name,
		ms(before.Took(0.99)), ms(during.Took(0.99)), ms(after.Took(0.99)), ms(all.Took(1)), during.Steps(), excess/faultBurst, most/faultBurst, (recovered - end).Seconds())
	if excess > most {
		ft.Errorf("%.1f tokens beyond the rate, want at most %.1f", excess, most)
	}
	for i, l := range ft.limiters {
		answers := ft.answers(i, 0, time.Hour)
		if slowest := answers.Took(1); slowest > 20*ft.budget(i) {
			ft.Errorf("instance %d: an answer after %v of a budget of %v", i, slowest, ft.budget(i))
		}
		counted, now := map[string]int{}, l.Stats()
		for step, n := range now.Decisions {
			if n -= stats[i].Decisions[step]; n > 0 {
				counted[redislimit.Step(step).String()] = int(n)
			}
		}
		if steps := answers.Steps(); !maps.Equal(counted, steps) {
			ft.Errorf("instance %d: Stats counts %v, the callers had %v", i, counted, steps)
		}
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// answers returns those of one instance.
func (ft *faultTest) answers(instance int, from, until time.Duration) (answers redistest.Answers) {
	for _, a := range ft.load.Answers(from, until) {
		if a.Caller%faultInstances == instance {
			answers = append(answers, a)
		}
	}
	return answers
}

// ladder returns nil if an instance has gone down the steps that the fault leads to: to what it
// knows, then to its share.
func (ft *faultTest) ladder(instance int, since time.Duration) error {
	var down []string
	for _, a := range ft.answers(instance, since, time.Hour) { // in the order of their ends
		if a.Step != "exact" && !slices.Contains(down, a.Step) {
			down = append(down, a.Step)
		}
	}
	var want []string
	if ft.degrades(instance) {
		want = []string{"known", "share"}
	}
	if !slices.Equal(down, want) {
		return fmt.Errorf("the steps %v, want %v", down, want)
	}
	return nil
}

// exact returns nil if the store decides everything for an instance.
func (ft *faultTest) exact(instance int) error {
	now := ft.load.Now()
	steps, s := ft.answers(instance, now-200*time.Millisecond, now).Steps(), ft.limiters[instance].Stats()
	if steps["exact"] == 0 || len(steps) > 1 || s.Away {
		return fmt.Errorf("steps %v, %+v", steps, s)
	}
	return nil
}

// bound returns how many tokens may be granted beyond the rate. While some instances decide by
// themselves and the store decides for others, their shares come in addition.
func (ft *faultTest) bound(all redistest.Answers) float64 {
	bursts, apart := float64(ft.fault.Bursts), all.Apart("exact", faultInstances).Seconds()
	switch {
	case ft.fault.Away:
		return bursts*faultBurst + apart*faultRate*(faultInstances-1)/faultInstances
	case ft.fault.Cut > 0:
		return bursts*faultBurst + (faultBurst+apart*faultRate)*float64(ft.fault.Cut)/faultInstances
	}
	return bursts * faultBurst
}
