package limit_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// An idle time that the clock does not reach never ends, instead of ending in the past.
func TestSlowStartNeverIdle(t *testing.T) {
	for _, idle := range []time.Duration{weir.Never, weir.Never - 1, math.MaxInt64 / 2} {
		s := newStarter(t, limit.Fixed(100), limit.SlowStart{Idle: idle})
		s.limits(10, 20, 40, 80, 100)
		began := s.now
		if at, ok := s.alg.(limit.Controller).Tick(); !ok || at < min(idle, weir.Never-began) {
			t.Fatalf("idle %v: the window ends at %v", idle, at)
		}
		if ticks, why := s.idle(1000 * time.Hour); ticks != 0 || why != limit.Kept {
			t.Errorf("idle %v: %d ticks, %v", idle, ticks, why)
		}
		s.limits(100)
	}
}
