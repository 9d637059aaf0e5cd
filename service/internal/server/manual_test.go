package server_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/testrig"
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

// Windows settle by the clock of the node, which may be years from the real one.
func TestManualClockOfWindows(t *testing.T) {
	for _, algorithm := range []config.Algorithm{config.Fixed, config.Sliding} {
		rules, now := config.Rules{Rules: []config.Rule{one("all", quota(10, time.Minute, algorithm))}}, time.Second
		testrig.Must(t, rules.Complete())
		s, err := server.New(server.Config{Rules: &rules, Clock: clock.Manual(&now)})
		testrig.Must(t, err)
		var v decider.Verdict
		testrig.Must(t, s.Decide(t.Context(), &decider.Request{Key: "k", N: 10, WantID: true}, &v))
		now += time.Second
		_, err = s.Settle(t.Context(), "k", string(s.AppendGrantID(nil, v.Grant, "k")), 4)
		testrig.Must(t, err)
		if testrig.Must(t, s.Decide(t.Context(), &decider.Request{Key: "k", N: 6}, &v)); !v.OK {
			t.Errorf("%s: %+v: want the six tokens that were returned", algorithm, v)
		}
	}
}
