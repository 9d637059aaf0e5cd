package lease

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// A limit is not lowered for work that was late because its request had waited.
func TestLesson(t *testing.T) {
	for _, tt := range []struct {
		outcome      weir.Outcome
		took, waited time.Duration
		want         weir.Outcome
	}{
		{outcome.TimedOut, 2, 1, outcome.TimedOut},
		{outcome.TimedOut, 1, 1, outcome.Left},
		{outcome.Late, 2, 1, outcome.Late},
		{outcome.Late, 1, 2, weir.Ignored},
		{weir.Success, 1, 2, weir.Success},
		{weir.Dropped, 1, 2, weir.Dropped},
		{outcome.TimedOut, 1, 0, outcome.TimedOut},
	} {
		if got := lesson(tt.outcome, tt.took, tt.waited); got != tt.want {
			t.Errorf("%v of %d after %d: %v, want %v", tt.outcome, tt.took, tt.waited, got, tt.want)
		}
	}
}
