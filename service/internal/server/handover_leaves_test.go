package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Assignments of keys that move are not known any more. When the keys are back, leaves get what they
// say they have, although the first of them wants all.
func TestAssignmentsOfKeysThatMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := &config.Rules{Rules: []config.Rule{{Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 100, Period: time.Second}}}}}
		if err := rules.Complete(); err != nil {
			t.Fatal(err)
		}
		s, err := server.New(server.Config{Rules: rules, Fleet: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(server.DefaultAssignmentTTL) // it has learned
		exchange := func(name string, reports ...leaf.Report) decider.LeafAnswer {
			t.Helper()
			var got decider.LeafAnswer
			x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: name, Reports: reports}}
			if err := s.Exchange(context.Background(), &x, &got); err != nil {
				t.Fatal(err)
			}
			return got
		}
		exchange("a", leaf.Report{Key: "k", Wants: 50}, leaf.Report{Key: "l", Wants: 50})
		if got := exchange("a"); got.Known != 2 {
			t.Errorf("%d keys are known, want 2", got.Known)
		}
		only := new(slot.Set)
		only.Add(s.RouteKey("k"))
		s.Depart(only)
		if got := exchange("a"); got.Known != 1 {
			t.Errorf("%d keys are known after one has moved, want 1", got.Known)
		}
		s.Expect(only, 0)
		for _, l := range []struct {
			name string
			has  float64
		}{{"a", 50}, {"b", 30}} {
			if got := exchange(l.name, leaf.Report{Key: "k", Wants: 1000, Has: l.has}).Assignments[0]; got.Rate != l.has || got.Learning {
				t.Errorf("a leaf with %v gets %+v", l.has, got)
			}
		}
		if got := exchange("c", leaf.Report{Key: "k", Wants: 10}).Assignments[0]; !got.Learning {
			t.Errorf("a new leaf gets %+v", got)
		}
	})
}
