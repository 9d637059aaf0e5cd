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
		l := g.NewLimits("jobs", "", terms)
		b, _ := l.enter("a")
		l.Update(nil)
		h := holding{SavedLease: SavedLease{Key: "a", N: 1}}
		if err := h.ask(t.Context(), &Under{Limits: l, Bucket: "a"}, true, new(Wait)); err != waiting.ErrMoved {
			t.Errorf("a request that arrives: %v", err)
		}
		if err := l.enqueue(t.Context(), &waiter{}, b, 1, new(Wait)); err != waiting.ErrMoved {
			t.Errorf("a request that has arrived, and is about to wait: %v", err)
		}
		room.Close()
		l.Update(terms)
		b, _ = l.enter("a")
		if err := l.enqueue(t.Context(), &waiter{}, b, 1, new(Wait)); err == nil {
			t.Error("a request waits though the server closes")
		}
	})
}
