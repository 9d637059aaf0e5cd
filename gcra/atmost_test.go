package gcra_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// TakeAtMost takes what there is, as a Take of the largest number that is allowed.
func TestTakeAtMost(t *testing.T) {
	for _, q := range []gcra.Quota{gcra.Per(10, time.Second, 5), gcra.Per(7, time.Second, 3), gcra.Per(0, 0, 4), gcra.Per(1e18, time.Second, 1e9), gcra.Per(1, time.Second, 0), gcra.Unlimited(), {}} {
		for _, used := range []int{0, 1, 2, 3, 5} {
			for _, n := range []int{0, 1, 2, 4, 5, 6, 100} {
				var b gcra.Bucket
				b, _ = q.Take(b, time.Second, used)
				got, part, d := q.TakeAtMost(b, time.Second, n)
				most := n // the largest number that Take allows
				for ; most > 0; most-- {
					if _, d := q.Take(b, time.Second, most); d.OK {
						break
					}
				}
				want := b
				if most > 0 {
					want, _ = q.Take(b, time.Second, most)
				}
				if part != most || n > 0 && (got != want || d.OK != (part > 0)) {
					t.Errorf("%v, %d used, %d asked: %d taken, %+v: want %d", q, used, n, part, d, most)
				}
			}
		}
	}
	q := gcra.Per(1, time.Second, 2)
	b, _ := q.Take(0, 0, 2)
	if _, part, d := q.TakeAtMost(b, 0, 5); part != 0 || d.OK || d.RetryAfter != weir.Never {
		t.Errorf("%d, %+v: want the denial of 5", part, d)
	}
}
