package inflight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
)

// copied returns a copy that vet does not see.
func copied[T any](p *T) T { return *p }

// A copy of a Permit that is released, too, panics and blocks no other caller, also while
// units of abandoned work are held.
func TestReleasedCopyWhileUnitsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 1000, inflight.Config{})
		var permits []weir.Permit
		for range 1000 {
			permits = append(permits, acquire(t, l, 1))
		}
		time.Sleep(time.Second)
		for i := range permits {
			permits[i].Release(weir.Success)
		}
		left := acquire(t, l, 1)
		time.Sleep(time.Millisecond)
		left.Abandon(context.DeadlineExceeded)
		panics := 0
		for range 200 { // timed or not
			p := acquire(t, l, 1)
			twin := copied(&p)
			p.Release(weir.Success)
			func() {
				defer func() {
					if recover() != nil {
						panics++
					}
				}()
				twin.Release(weir.Success)
			}()
		}
		if s := l.Stats(); s.Inflight != 1 || s.Held != 1 || panics != 200 {
			t.Errorf("%d panics, %+v: want 200, and one unit held", panics, s)
		}
		time.Sleep(time.Second)
		all := acquire(t, l, 1000)
		all.Release(weir.Success)
	})
}
