package inflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// The return of the function is the end of the work, however it ended: nothing
// is held after it.
func TestDoHoldsNothingAfterItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(10)})
		if err != nil {
			t.Fatal(err)
		}
		takes := func(d time.Duration, result error) {
			_ = weir.Do(t.Context(), l, func(context.Context) error {
				time.Sleep(d)
				return result
			})
		}
		for range 10 {
			takes(time.Second, nil)
		}
		for _, result := range []error{
			context.DeadlineExceeded, context.Canceled, errors.New("a bug"), weir.Reject(weir.QueueFull, 0), weir.Reject(weir.OverRate, 0),
		} {
			takes(time.Millisecond, result)
			if s := l.Stats(); s.Inflight != 0 || s.Held != 0 {
				t.Errorf("after %v: %+v: want nothing in flight", result, s)
			}
		}
	})
}
