package longlived

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// Beyond the bound, a response stays in its limit, which it fills, until there is room or it ends.
func TestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(2)})
		testrig.Must(t, err)
		warned := 0
		c := &Crowd{OnStay: func() { warned++ }}
		c.SetMost(1)
		var all []*Exchange
		for range 3 {
			p, err := l.Acquire(t.Context(), 1)
			testrig.Must(t, err)
			all = append(all, c.NewExchange(l, 1, &p))
			all[len(all)-1].Lasts(false, weir.Success)
		}
		if c.Now() != 1 || c.Stayed() != 2 || warned != 1 || !c.Fills(l) {
			t.Errorf("%d have left, %d stayed, warned %d times, fills: %t: want 1, 2, once, and that they fill the limit", c.Now(), c.Stayed(), warned, c.Fills(l))
		}
		all[0].End(weir.Success)
		time.Sleep(Unknown + 1)
		synctest.Wait()
		if c.Now() != 1 || c.Fills(l) || l.State().Inflight != 1 {
			t.Errorf("%d have left, %d in flight, fills: %t: want that one took the free place", c.Now(), l.State().Inflight, c.Fills(l))
		}
		for _, x := range all[1:] {
			x.End(weir.Success)
		}
		if c.Now() != 0 || c.any.Load() != 0 || len(c.units) != 0 || l.State().Inflight != 0 {
			t.Errorf("in the end: %d, %d units, %v", c.Now(), c.any.Load(), c.units)
		}
	})
}
