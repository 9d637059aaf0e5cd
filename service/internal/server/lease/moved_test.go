package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// TestAskUnderReplacedRules: a request that has read the rules before they were
// replaced is told so, rather than wait where nothing ends its wait.
func TestAskUnderReplacedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := &config.Concurrency{Limit: 1}
		room := waiting.NewRoom(10)
		g := NewRegistry(clock.New(), room, 10, nil)
		l := g.newLimits("jobs", "", terms)
		under := []Under{{Limits: l, Bucket: "a"}}
		wait := func(rules uint64) error {
			b := l.enterLocked("a")
			return g.queue.wait(t.Context(), b, &holding{SavedLease: SavedLease{Key: "a", N: 1}}, &Plan{rules: rules, under: under}, new(Wait))
		}
		g.change(&change{rules: 1, terms: map[*Limits]*config.Concurrency{l: terms}, publish: func() {}})
		h := holding{SavedLease: SavedLease{Key: "a", N: 1}}
		if _, err := h.ask(&under[0], true, 0); err != waiting.ErrMoved {
			t.Errorf("a request that arrives: %v", err)
		}
		if err := wait(0); err != waiting.ErrMoved {
			t.Errorf("a request that has arrived, and is about to wait: %v", err)
		}
		room.Close()
		if err := wait(1); err == nil || err == waiting.ErrMoved {
			t.Errorf("a request that is about to wait though the server closes: %v", err)
		}
	})
}

// TestUseUnderReplacedRules: a call that has read the rules before they were replaced twice is told so. It
// neither loses a lease of the last process, nor finds that its rule grants none.
func TestUseUnderReplacedRules(t *testing.T) {
	g := NewRegistry(clock.New(), waiting.NewRoom(10), 10, nil)
	g.Recover(map[string]time.Duration{"jobs": time.Hour})
	keys := rules.NewKeys(10)
	find := func() *rules.Match {
		set, err := rules.Compile(&config.Rules{Rules: []config.Rule{{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 1}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.Use(set)
		g.Publish(func() {})
		return keys.RulesOf("a", set)
	}
	old, now := find(), (*rules.Match)(nil)
	for range 2 {
		now = find()
	}
	for _, row := range []struct {
		m    *rules.Match
		want error
	}{{old, waiting.ErrMoved}, {now, decider.ErrNoLease}} {
		if _, err := g.Renew(t.Context(), row.m, "a", "unknown", 0); err != row.want {
			t.Errorf("Renew: %v, want %v", err, row.want)
		}
		if err := g.Return(t.Context(), row.m, "a", "unknown", weir.Success); err != row.want {
			t.Errorf("Return: %v, want %v", err, row.want)
		}
	}
	if err := g.Look(t.Context(), old, "a", make([]decider.RuleState, 1)); err != waiting.ErrMoved {
		t.Errorf("Look: %v, want %v", err, waiting.ErrMoved)
	}
}
