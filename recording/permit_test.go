package recording

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

// The permit in place of another passes on what is done to it, and counts units.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := recorder(t, 64)
		var inner []weir.Outcome
		var inflight atomic.Int64
		hold := func(n int) weir.Permit {
			p := weir.NewPermit(func(o weir.Outcome) { inner = append(inner, o) })
			r.Hold(&p, n, &Record{Intended: r.Now(), Start: r.Now()}, &inflight)
			return p.Move()
		}
		p, q := hold(2), hold(3)
		if inflight.Load() != 5 {
			t.Errorf("%d units", inflight.Load())
		}
		p.Use(1)
		time.Sleep(10 * time.Millisecond)
		p.Report(weir.Success)
		time.Sleep(10 * time.Millisecond)
		p.Release(weir.Success)
		p.Release(weir.Dropped) // does nothing
		if inflight.Load() != 3 || len(inner) != 1 || inner[0] != weir.Success {
			t.Errorf("%d units, %v", inflight.Load(), inner)
		}
		q.Release(weir.Dropped)
		_, got := drained(t, r)
		if len(got) != 2 || inflight.Load() != 0 {
			t.Fatalf("%d units, %+v", inflight.Load(), got)
		}
		if g := got[0]; g.Response().Round(time.Millisecond) != 10*time.Millisecond || g.Inflight != 2 || !g.Outcome.Success() {
			t.Errorf("%+v", g)
		}
		if g := got[1]; g.Response().Round(time.Millisecond) != 20*time.Millisecond || g.Inflight != 5 || g.Outcome != Ended(weir.Dropped) {
			t.Errorf("%+v", g)
		}
	})
}
