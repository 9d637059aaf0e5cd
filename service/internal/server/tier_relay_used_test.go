package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A usedCount adds up what a tier reports as used.
type usedCount struct {
	assigner
	used atomic.Int64
}

func (u *usedCount) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	for _, r := range x.Reports {
		u.used.Add(int64(r.Used))
	}
	return u.assigner.Exchange(ctx, x)
}

// A tier reports to its upstream what its own leaves have used.
func TestTierReportsTheUseOfItsLeaves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit = 1000
		up := newDesk(t, server.Config{Rules: fleetRules(limit)})
		w := &wire{Decider: up.Server}
		count := &usedCount{assigner: assigner{w}}
		tier, err := server.NewTier(server.Config{Rules: fleetRules(limit)}, server.TierConfig{Name: "zone", Upstream: w, Assigner: count})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tier.Disconnect(context.Background()) }()
		report, sum := leaf.Report{Key: "hot", Wants: 100}, 0
		for i := range 60 {
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "below", Held: min(i, 1), Reports: []leaf.Report{report}}}
			var got decider.LeafAnswer
			if err := tier.Exchange(context.Background(), &x, &got); err != nil {
				t.Fatal(err)
			}
			report.Has, report.Used = got.Assignments[0].Rate, 7
			sum += x.Reports[0].Used
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute) // the key is idle: its last report is made
		if used := int(count.used.Load()); used != sum || report.Has == 0 {
			t.Errorf("the upstream knows of %d tokens, want %d; the leaf has %v a second", used, sum, report.Has)
		}
	})
}
