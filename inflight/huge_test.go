package inflight_test

import (
	"math"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// What is in flight is counted under any limit, and under a lower one afterwards.
func TestAHugeLimitLosesNoUnit(t *testing.T) {
	for _, huge := range []int{1<<24 - 1, 1 << 24, 1<<24 + 7, math.MaxInt} {
		l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(1000)})
		testrig.Must(t, err)
		var permits []weir.Permit
		for range 8 {
			p, err := l.Acquire(t.Context(), 1)
			testrig.Must(t, err)
			p.Report(weir.Success) // its release is not timed
			permits = append(permits, p.Move())
		}
		l.SetAlgorithm(limit.Fixed(huge))
		for i := range permits {
			permits[i].Release(weir.Success)
		}
		if n := l.Stats().Inflight; n != 0 {
			t.Errorf("limit %d: %d in flight: want none", huge, n)
		}
		l.SetAlgorithm(limit.Fixed(1000))
		if p, err := l.Acquire(t.Context(), 1); err != nil {
			t.Errorf("after a limit of %d: %v", huge, err)
		} else {
			p.Release(weir.Success)
		}
	}
}
