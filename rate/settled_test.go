package rate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// What was taken without a Reservation is settled as well: too much comes back,
// too little is charged, down to the debt that there may be.
func TestSettleWithoutReservation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(1, time.Hour, 5), rate.Config{MaxDebt: 2})
		l.Take(3)
		for _, step := range []struct {
			was, n, held int
			left         float64
		}{
			{3, 1, 1, 4}, {1, 1, 1, 4}, {1, 6, 6, -1}, {6, 10, 7, -2}, {7, 0, 0, 5},
		} {
			if held := l.Settle(step.was, step.n); held != step.held || l.Tokens() != step.left {
				t.Errorf("from %d to %d: %d is charged, %v are left: want %d and %v", step.was, step.n, held, l.Tokens(), step.held, step.left)
			}
		}
	})
	if held := rate.NewLimiter(rate.Inf, 1).Settle(3, 9); held != 9 {
		t.Errorf("without a limit: %d is charged: want 9", held)
	}
	for _, cost := range [][2]int{{-1, 0}, {0, -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Settle(%d, %d) does not panic", cost[0], cost[1])
				}
			}()
			rate.NewLimiter(1, 1).Settle(cost[0], cost[1])
		}()
	}
}
