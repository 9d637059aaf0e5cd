package clock_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/clock"
)

func TestManual(t *testing.T) {
	now := time.Duration(0)
	c := clock.Manual(&now)
	if now = time.Hour; c.Now() != time.Hour || c.Time(time.Hour).Sub(c.Time(0)) != time.Hour {
		t.Errorf("%v, %v: want the given instant", c.Now(), c.Time(time.Hour))
	}
}
