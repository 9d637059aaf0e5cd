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
// number of leaves that they are told does not count it. Its own leaves are told of each other.
func TestTenantsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{MaxAssignments: 100}, one("all", quota(10, time.Hour, "")))
		for i := range 100 {
			got, err := join(d, "tenant", fmt.Sprint("t", i), "k")
			must(t, err)
			want := map[bool]string{true: decider.ErrLeaves.Error()}[i >= 50]
			if got.Leaves != i+1 || got.Assignments[0].Error != want {
				t.Fatalf("leaf %d of a tenant: %+v: want the error %q, and %d leaves", i, got, want, i+1)
			}
		}
		for i := range 3 {
			got, err := join(d, "", fmt.Sprint("own", i), "k")
			must(t, err)
			if got.Leaves != i+1 || got.Assignments[0].Error != "" {
				t.Errorf("leaf %d without a tenant: %+v", i+1, got)
			}
		}
		got, err := join(d, "tenant", "t0", "k")
		must(t, err)
		check(t, "leaves beside that of a tenant", got.Leaves, 103)
		for i := 100; i < 9_998; i++ {
			_, err := join(d, "tenant", fmt.Sprint("t", i), "k")
			must(t, err)
		}
		for i := range 2 {
			if _, err := join(d, "tenant", fmt.Sprint("more", i), "k"); (err != nil) != (i > 0) {
				t.Errorf("leaf %d of the tenant, of 20,000 with 3 others: %v", 9_999+i, err)
			}
		}
		_, err = join(d, "other", "o", "k")
		must(t, err)
		check(t, "refused to others", d.Stats().Leaves.Refused-d.Stats().Leaves.TenantRefused, 0)
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

// When a leaf leaves, exchanges take its assignments back step by step. Until then, they count for its
// tenant, which keeps its bound.
func TestTenantKeepsItsBoundWhenItsLeavesLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := learnt(t, server.Config{MaxAssignments: 10_000}, one("all", quota(10, time.Hour, "")))
		ask := func(tenant, name string, keys int) (assigned int) {
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name}, Tenant: tenant}
			for i := range keys {
				x.Reports = append(x.Reports, leaf.Report{Key: fmt.Sprint(name, i), Wants: 1})
			}
			var got decider.LeafAnswer
			must(t, d.Exchange(t.Context(), &x, &got))
			for i := range got.Assignments {
				if got.Assignments[i].Error == "" {
					assigned++
				}
			}
			return assigned
		}
		leave := func(tenant, name string) {
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Leave: true}, Tenant: tenant}
			must(t, d.Exchange(t.Context(), &x, new(decider.LeafAnswer)))
		}
		check(t, "of the first leaf", ask("tenant", "a", 6000), 5000)
		leave("tenant", "a") // which takes 2,000 back, as the next exchange does
		check(t, "beside 1,000 of the leaf that has left", ask("tenant", "b", 6000), 4000)
		check(t, "after these are taken back, beside 4,000", ask("tenant", "c", 6000), 1000)
		check(t, "of another tenant, beside 5,000", ask("other", "o", 6000), 2500)
		leave("tenant", "b")
		leave("tenant", "c")
		leave("other", "o")
		for range 2 {
			check(t, "leaves of the tenant", ask("tenant", "d", 1), 1)
		}
		check(t, "of the tenant, after all others have left", ask("tenant", "e", 6000), 4999)
		check(t, "assignments", d.Stats().Leaves.Assignments, 5000)
		check(t, "refused", d.Stats().Leaves.Refused, 1000+2000+5000+3500+1001)
		check(t, "refused to tenants", d.Stats().Leaves.TenantRefused, d.Stats().Leaves.Refused)
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
