package redistest_test

import (
	"testing"

	"github.com/weir-go/weir/internal/redistest"
)

func TestOverlap(t *testing.T) {
	for i, tt := range []struct {
		holds    []redistest.Hold
		longest  int
		backward int
	}{
		{nil, 0, 0},
		{[]redistest.Hold{{2, 10, 20}, {1, 0, 10}, {3, 25, 30}}, 0, 0},
		{[]redistest.Hold{{1, 0, 12}, {2, 10, 20}, {3, 19, 30}}, 2, 0},
		{[]redistest.Hold{{1, 0, 100}, {2, 10, 20}, {3, 30, 55}}, 25, 0},
		{[]redistest.Hold{{2, 0, 10}, {2, 10, 20}, {1, 20, 30}}, 0, 2},
	} {
		if longest, backward := redistest.Overlap(tt.holds); int(longest) != tt.longest || backward != tt.backward {
			t.Errorf("%d: %d, %d tokens backward, want %d, %d", i, longest, backward, tt.longest, tt.backward)
		}
	}
}
