package lease

import (
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// TestAskUnderReplacedRules: a request that has read the rules before they were
// replaced is told so, rather than wait where nothing ends its wait.
func TestAskUnderReplacedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		terms := &config.Concurrency{Limit: 1}
		room := waiting.NewRoom(10)
		g := NewRegistry(clock.New(), room, 10)
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
