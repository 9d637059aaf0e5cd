package limit_test

import (
	"math"
	"testing"

	"github.com/weir-go/weir/limit"
)

// Bounds beyond what a limit can be are an error, or no bound; the limit does not
// overflow.
func TestBoundsDoNotOverflow(t *testing.T) {
	a, err := limit.NewAuto(limit.Config{Max: math.MaxInt})
	if err != nil || a.Limit() != 10 {
		t.Errorf("%v: want no error, and a limit of 10", err)
	}
	for _, cfg := range []limit.Config{{Initial: math.MaxInt}, {Min: math.MaxInt}, {Initial: math.MaxInt, Max: math.MaxInt}} {
		if _, err := limit.NewAuto(cfg); err == nil {
			t.Errorf("%+v: want an error", cfg)
		}
	}
}
