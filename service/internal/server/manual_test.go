package server_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// With a manual clock, all counts are of its time: what a leaf has used is refilled as that
// goes on.
func TestManualClock(t *testing.T) {
	now := time.Duration(0)
	for _, per := range []config.Per{config.PerKey, config.PerRule} {
		rule := one("all", quota(100, time.Second, ""))
		rule.Per = per
		rules := config.Rules{Rules: []config.Rule{rule}}
		if err := rules.Complete(); err != nil {
			t.Fatal(err)
		}
		now = 0
		s, err := server.New(server.Config{Rules: &rules, Clock: clock.Manual(&now)})
		if err != nil {
			t.Fatal(err)
		}
		allowed := func() (n int) {
			var v decider.Verdict
			for s.Decide(t.Context(), &decider.Request{Key: "k", N: 1}, &v) == nil && v.OK {
				n++
			}
			return n
		}
		now = time.Second
		x := decider.LeafExchange{Exchange: leaf.Exchange{Leaf: "a", Reports: []leaf.Report{{Key: "k", Used: 150, Wants: 10}}}}
		if err := s.Exchange(t.Context(), &x, new(decider.LeafAnswer)); err != nil {
			t.Fatal(err)
		}
		if n := allowed(); n != 0 {
			t.Errorf("%s: %d allowed in debt, want none", per, n)
		}
		if now += 2 * time.Second; allowed() == 0 {
			t.Errorf("%s: none allowed 2 s later", per)
		}
	}
}
