package grpclimit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
)

// Refusals are cached for shared rejections, of which there are few, and not for the
// errors of other limiters.
func TestSharedRefusals(t *testing.T) {
	q := &quota{rule: "rule"}
	size := func() (n int) {
		q.shared.Range(func(any, any) bool { n++; return true })
		return n
	}
	for n := range 1000 {
		own := &weir.Rejection{Reason: weir.OverRate, RetryAfter: time.Duration(n) * time.Second}
		for _, err := range []error{own, fmt.Errorf("asking: %w", weir.Reject(weir.OverRate, time.Second)), weir.Reject(99, 0)} {
			if r := refusalOf(q, err, 0); !errors.Is(r, err) {
				t.Fatalf("%v is not %v", r.why, err)
			}
		}
		refusalOf(q, weir.Reject(weir.OverRate, time.Second), 1)
	}
	if n := size(); n != 0 {
		t.Errorf("%d refusals are kept: want none", n)
	}
	for range 1000 {
		refusalOf(q, weir.Reject(weir.OverRate, time.Second), 0)
		refusalOf(q, weir.Reject(weir.QueueFull, 0), 0)
	}
	if n := size(); n < 10 || n > 1+spread {
		t.Errorf("%d refusals are kept: want no more than %d", n, 1+spread)
	}
}
