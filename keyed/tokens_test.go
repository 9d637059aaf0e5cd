package keyed_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// A key tells its stock now and later, debt included, and keeps to its burst.
func TestTokensAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 4), keyed.Config{})
		a := l.For("a")
		l.Take("a", 3)
		l.Settle("a", 3, 6)
		now := time.Now()
		for after, want := range map[time.Duration]float64{0: -2, 200 * ms: 0, 350 * ms: 1.5, time.Hour: 4} {
			if got := a.TokensAt(now.Add(after)); math.Abs(got-want) > 1e-6 {
				t.Errorf("after %v: %v tokens: want %v", after, got, want)
			}
		}
		if got := l.For("b").TokensAt(now); got != 4 || a.Burst() != 4 {
			t.Errorf("another has %v tokens, of %d: want 4", got, a.Burst())
		}
		l.SetQuotaFor("a", new(gcra.Unlimited()))
		if got := a.TokensAt(now); !math.IsInf(got, 1) {
			t.Errorf("without a limit: %v tokens", got)
		}
	})
}
