package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/server/clock"
)

func TestManual(t *testing.T) {
	now := time.Duration(0)
	c := clock.Manual(&now)
	if now = time.Hour; c.Now() != time.Hour || c.At(time.Now()) != time.Hour || c.Time(time.Hour).Sub(c.Time(0)) != time.Hour {
		t.Errorf("%v, %v: want the given instant", c.Now(), c.Time(time.Hour))
	}
}

// An instant that was read earlier is told as such.
func TestAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.New()
		time.Sleep(time.Minute)
		read := time.Now()
		time.Sleep(time.Second)
		if earlier, now := c.At(read), c.At(time.Time{}); earlier != time.Minute || now != time.Minute+time.Second {
			t.Errorf("%v, %v: want a minute, and a second later", earlier, now)
		}
	})
}
