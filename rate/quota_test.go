package rate_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// Per states a quota with the same result as gcra.Per, also at the edges.
func TestPer(t *testing.T) {
	for _, tt := range []struct {
		count  int
		period time.Duration
		burst  int
	}{{100, time.Minute, 20}, {7, time.Second, 1}, {0, time.Second, 5}, {1, 0, 5}, {1, time.Second, 0}, {-1, -1, -1}} {
		if got, want := rate.Per(tt.count, tt.period, tt.burst), gcra.Per(tt.count, tt.period, tt.burst); got != want {
			t.Errorf("%+v: %+v: want %+v", tt, got, want)
		}
	}
	lim := rate.New(rate.Per(1, time.Hour, 3), rate.Config{})
	if !lim.AllowN(time.Now(), 3) || lim.Allow() {
		t.Error("want a burst of 3")
	}
}
