package retrystep_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/retrystep"
)

const never time.Duration = math.MaxInt64

// A step is never less than the wait, and not much more.
func TestUp(t *testing.T) {
	check := func(d time.Duration) {
		t.Helper()
		up := retrystep.Up(d)
		if up < d {
			t.Fatalf("%v becomes %v: want that or more", d, up)
		}
		if more := up - d; up != never && more >= max(d/4, time.Millisecond/2) && d > 0 {
			t.Fatalf("%v becomes %v: want less than a quarter more", d, up)
		}
		if again := retrystep.Up(up); again != up {
			t.Fatalf("%v becomes %v, and that %v", d, up, again)
		}
	}
	last := time.Duration(0)
	for d := time.Duration(1); d > 0; d += d/7 + 1 {
		check(d)
		check(d - 1)
		if up := retrystep.Up(d); up < last {
			t.Fatalf("%v becomes %v, less than a shorter wait: %v", d, up, last)
		} else {
			last = up
		}
	}
	for e := range 63 {
		check(1 << e)
		check(1<<e - 1)
		check(1<<e + 1)
	}
	for _, tt := range []struct{ d, want time.Duration }{
		{0, 0}, {-1, 0}, {1, 244_140}, {244_140, 244_140}, {244_141, 305_175}, {never, never},
		{never - 1, never}, {1<<30*time.Second + 1, never}, {1 << 30 * time.Second, 1 << 30 * time.Second},
		{time.Second, time.Second}, {2 * time.Second, 2 * time.Second}, {3 * time.Second, 3 * time.Second},
		{5 * time.Second, 5 * time.Second}, {7 * time.Second, 7 * time.Second}, {8 * time.Second, 8 * time.Second},
		{9 * time.Second, 10 * time.Second}, {12 * time.Second, 12 * time.Second}, {time.Second + 1, time.Second * 5 / 4},
	} {
		if up := retrystep.Up(tt.d); up != tt.want {
			t.Errorf("%v: %v: want %v", tt.d, up, tt.want)
		}
	}
}
