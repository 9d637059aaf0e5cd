package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

type exchanger interface {
	Exchange(context.Context, *decider.LeafExchange, *decider.LeafAnswer) error
}

// join has a new leaf of a tenant report a key.
func join(d exchanger, tenant, name, key string) (got decider.LeafAnswer, err error) {
	x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: []leaf.Report{{Key: key, Wants: 1000}}}, Tenant: tenant}
	err = d.Exchange(context.Background(), &x, &got)
	return got, err
}

// A tenant has half of the leaves and half of the assignments. The others have places, and the
// number of leaves that they are told does not count it.
func TestTenantsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{MaxAssignments: 100}, one("all", quota(10, time.Hour, "")))
		for i := range 100 {
			got, err := join(d, "tenant", fmt.Sprint("t", i), "k")
			must(t, err)
			want := map[bool]string{true: decider.ErrLeaves.Error()}[i >= 50]
			if got.Leaves != 0 || got.Assignments[0].Error != want {
				t.Fatalf("leaf %d of a tenant: %+v: want the error %q, and 0 leaves", i, got, want)
			}
		}
		for i := range 3 {
			got, err := join(d, "", fmt.Sprint("own", i), "k")
			must(t, err)
			if got.Leaves != i+1 || got.Assignments[0].Error != "" {
				t.Errorf("leaf %d without a tenant: %+v", i+1, got)
			}
		}
		for i := 100; i < 9_998; i++ {
			_, err := join(d, "tenant", fmt.Sprint("t", i), "k")
			must(t, err)
		}
		for i := range 2 {
			if _, err := join(d, "tenant", fmt.Sprint("more", i), "k"); (err != nil) != (i > 0) {
				t.Errorf("leaf %d of the tenant, of 20,000 with 3 others: %v", 9_999+i, err)
			}
		}
		_, err := join(d, "other", "o", "k")
		must(t, err)
		// What has ended makes room.
		time.Sleep(18 * server.DefaultAssignmentTTL)
		for range 2 {
			_, err = join(d, "", "last", "k")
			must(t, err)
		}
		check(t, "long after", d.Stats().Leaves.Leaves, 1)
		for i := range 50 {
			if got, err := join(d, "tenant", fmt.Sprint("again", i), "k"); err != nil || got.Assignments[0].Error != "" {
				t.Fatalf("leaf %d of the tenant, after its others: %+v, %v", i+1, got, err)
			}
		}
	})
}

// While the upstream is away, leaves of a tenant do not make the share of a tier smaller, also if
// they shared a key with it.
func TestTierShareBesideTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, z := newPair(t, `rules: [{name: fast, glob: "fast*", rate: 200/s, away: share}]`, server.TierConfig{})
		ask := func(key string) (allowed int, step decider.Step) {
			for range 100 {
				v := z.take(key, 1)
				if step = v.Step; v.OK {
					allowed++
				}
				time.Sleep(10 * time.Millisecond)
			}
			return allowed, step
		}
		for i := range 200 {
			_, err := join(up, "tenant", fmt.Sprint("t", i), "fast:tenant")
			must(t, err)
		}
		for range 5 {
			ask("fast:tenant")
		}
		z.wire.cut.Store(true)
		time.Sleep(2 * server.DefaultAssignmentTTL)
		if allowed, step := ask("fast:other"); step != decider.Share || allowed < 99 {
			t.Errorf("alone with a limit of 200/s: %d of 100 on the step %v", allowed, step)
		}
	})
}

// An upstream that does not tell the number of leaves tells that of each key.
func TestTierCountsLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := &config.Rules{Rules: []config.Rule{{Name: "fast", Glob: "*", Quota: quota(100, time.Second, "")}}}
		for _, told := range []struct{ leaves, ofKey, want int }{{3, 70, 3}, {0, 70, 70}, {0, 0, 2}, {1, 5, 2}} {
			up, err := server.New(server.Config{Rules: rules})
			must(t, err)
			tier, err := server.NewTier(server.Config{Rules: rules}, server.TierConfig{
				Name: "a", Upstream: &wire{Decider: up}, Assigner: &counter{told.leaves, told.ofKey}, Leaves: 2,
			})
			must(t, err)
			var v decider.Verdict
			for range 10 {
				_ = tier.Decide(t.Context(), &decider.Request{Key: "k", N: 1}, &v)
				time.Sleep(time.Second)
			}
			check(t, fmt.Sprint(told), tier.TierStats().Leaves, told.want)
			_ = tier.Disconnect(context.Background())
		}
	})
}

// A counter assigns 10 a second, and tells numbers of leaves.
type counter struct{ leaves, ofKey int }

func (c *counter) Exchange(_ context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	got := leaf.Answer{TTLMS: 30_000, NextMS: 1000, Leaves: c.leaves}
	for _, r := range x.Reports {
		got.Assignments = append(got.Assignments, leaf.Assignment{Key: r.Key, Rate: 10, Burst: 10, Leaves: c.ofKey})
	}
	return got, nil
}
