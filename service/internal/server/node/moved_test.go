package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/grant"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/node"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// moving are Counts under rules that change once in the middle of a batch.
type moving struct {
	counts.Counts
	moved bool
}

func (m *moving) TakeAll(ctx context.Context, asks []counts.Asked, all bool) {
	if m.moved {
		m.Counts.TakeAll(ctx, asks, all)
		return
	}
	m.moved = true
	asks[1].Err = waiting.ErrMoved
	if !all {
		m.Counts.TakeAll(ctx, asks[:1], all)
	}
}

// A batch in the middle of which the rules change takes the tokens of each request once.
func TestBatchWhileRulesChange(t *testing.T) {
	for _, all := range []bool{false, true} {
		c, room := clock.New(), waiting.NewRoom(1)
		in, err := memory.New(memory.Config{Node: counts.Node{Clock: c, Room: room}, Grants: grant.NewLedger(), Memory: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		n := node.New(node.Config{Clock: c, Keys: rules.NewKeys(100), Counts: &moving{Counts: in}, Leases: lease.NewRegistry(c, room, 1, nil)})
		one := config.Quota{Rate: config.Rate{Count: 1, Period: time.Hour}}
		if err := n.Reload(&config.Rules{Rules: []config.Rule{{Name: "r", Glob: "*", Quota: one}}}, nil); err != nil {
			t.Fatal(err)
		}
		got := make([]decider.Verdict, 2)
		if ok, err := n.Batch(t.Context(), []decider.Request{{Key: "a", N: 1}, {Key: "b", N: 1}}, all, got); !ok || err != nil {
			t.Errorf("all is %v: %v, %+v, %v: want both", all, ok, got, err)
		}
	}
}
