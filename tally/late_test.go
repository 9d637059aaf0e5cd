package tally_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/tally"
)

// Whoever decides late decides as if in time: the next window begins when it
// should have.
func TestTakeAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := tally.New(tally.Quota{Limit: 1, Period: time.Second}, tally.Config{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if !l.Take("a", 1, 0).OK {
			t.Fatal("the first is denied")
		}
		time.Sleep(3*time.Second + time.Second/2)
		for i := 1; i <= 3; i++ {
			at := start.Add(time.Duration(i) * time.Second)
			if d := l.TakeAt("a", at, 1, 0); !d.OK {
				t.Errorf("window %d: %+v", i, d)
			}
			if d := l.TakeAt("a", at, 1, 0); d.OK || d.RetryAfter != time.Second {
				t.Errorf("window %d, once more: %+v", i, d)
			}
		}
		if d := l.Take("a", 1, 0); d.OK || d.RetryAfter != time.Second/2 {
			t.Errorf("now: %+v", d)
		}
	})
}
