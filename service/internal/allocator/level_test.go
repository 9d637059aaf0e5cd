package allocator_test

import (
	"math"
	"testing"

	"github.com/weir-go/weir/service/internal/allocator"
)

// A leaf that wants more than there is gets the burst that no other leaf needs.
func TestHungryLeavesGetTheRestOfTheBurst(t *testing.T) {
	const rate, burst = 10, 200
	for name, c := range map[string]struct {
		leaves []report
		want   []float64
	}{
		"alone":                        {[]report{wanting("a", 1000)}, []float64{burst}},
		"alone, a little above":        {[]report{wanting("a", 1.1*rate)}, []float64{burst}},
		"four":                         {[]report{wanting("a", 1000), wanting("b", 1000), wanting("c", 1000), wanting("d", 1000)}, []float64{50, 50, 50, 50}},
		"beside one that wants little": {[]report{wanting("a", 1000), wanting("b", 0.01)}, []float64{198, 1.8}},
		"beside one that needs it":     {[]report{wanting("a", 1000), wanting("b", 4)}, []float64{104, 96}},
	} {
		a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: rate, Burst: burst}, TTL: ttl})
		a.rounds(6, c.leaves)
		sum := 0.0
		for i, r := range c.leaves {
			got := a.member(r.leaf).HeldBurst()
			if sum += got; math.Abs(got-c.want[i]) > burst/50 {
				t.Errorf("%s: %s has a burst of %v, want %v", name, r.leaf, got, c.want[i])
			}
		}
		if sum > burst+1e-9 || sum < 0.99*burst {
			t.Errorf("%s: all have %v of %v", name, sum, burst)
		}
	}
}
