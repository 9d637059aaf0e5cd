//go:build !race

package keyedtable_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/window"
)

// alone is a map of the states of windows: what tally does in bounded memory.
type alone struct {
	q      keyedtable.Window
	debt   int
	counts map[string]window.Count
}

func newAlone(q keyedtable.Window, debt int) *alone {
	return &alone{q, debt, map[string]window.Count{}}
}

// quota returns the Quota of a key; a window of it begins now, unless windows slide.
func (a *alone) quota(now time.Duration, limit int) *window.Quota {
	q := window.Quota(a.q)
	q.Limit = limit
	if !q.Sliding {
		q.Calendar = window.Every(q.Period, now)
	}
	return &q
}

func (a *alone) take(key string, now time.Duration, n, limit int) (d weir.Decision) {
	if limit <= 0 {
		limit = a.q.Limit
	}
	a.counts[key], d = a.quota(now, limit).Take(a.counts[key], now, n)
	return d
}

func (a *alone) settle(key string, at, now time.Duration, was, n int) (took int) {
	p, c := a.q.Period, a.counts[key]
	switch {
	case n > was:
		a.counts[key], took = a.quota(now, a.q.Limit).Charge(c, now, n-was, a.debt)
	case a.q.Sliding && at/p+1 < now/p: // it has faded out
	case a.q.Sliding && at/p == c.At/p:
		took = -min(was-n, c.Used)
		c.Used += took
		a.counts[key] = c
	case a.q.Sliding && at/p+1 == c.At/p:
		took = -min(was-n, c.Last)
		c.Last += took
		a.counts[key] = c
	case !a.q.Sliding && c.At-p <= at && now < c.At:
		took = -min(was-n, c.Used)
		if c.Used += took; c.Used == 0 {
			c = window.Count{} // the next event is the first
		}
		a.counts[key] = c
	}
	return was + took
}

// set counts what there is now under another quota, as if it came now.
func (a *alone) set(q keyedtable.Window, now time.Duration) {
	was := *a
	a.q = q
	if was.q.Period == q.Period && was.q.Sliding == q.Sliding {
		return
	}
	*a = *newAlone(q, a.debt)
	for key := range was.counts {
		a.take(key, now, math.MaxInt-was.take(key, now, 0, math.MaxInt).Remaining, math.MaxInt)
	}
}

// While there is memory, keys do as they do alone, whatever happens.
func FuzzLimiter(f *testing.F) {
	for n := range uint64(60) {
		f.Add(n, uint16(n*20), n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16, slides bool) {
		synctest.Test(t, func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 8))
			q := keyedtable.Window{Limit: 1 + chance.IntN(8), Period: time.Second, Sliding: slides}
			debt := chance.IntN(9)
			l, a := newLimiter(t, q, keyedtable.Config{Memory: 1 << 20, MaxDebt: maxDebt(debt)}), newAlone(q, debt)
			epoch := time.Unix(0, 0)
			taken := map[string]time.Time{}
			for range n % 2000 {
				time.Sleep(time.Duration(chance.IntN(int(200 * ms))))
				now := time.Since(epoch)
				key := fmt.Sprint(chance.IntN(5))
				switch what := chance.IntN(12); what {
				case 0:
					if chance.IntN(10) == 0 {
						q = keyedtable.Window{Limit: 1 + chance.IntN(8), Period: time.Duration(1+chance.IntN(3)) * time.Second, Sliding: chance.IntN(2) == 0}
						l.SetWindow(q)
						a.set(q, now)
					}
				case 1:
					l = again(t, l, q, keyedtable.Config{Memory: 1 << 20, MaxDebt: maxDebt(debt)})
				case 2, 3, 4:
					was, n, at := chance.IntN(4), chance.IntN(6), taken[key]
					if at.IsZero() {
						continue
					}
					if got, want := l.SettleAt(key, at, was, n), a.settle(key, at.Sub(epoch), now, was, n); got != want {
						t.Fatalf("%d instead of %d, taken %v ago: %d: want %d", n, was, time.Since(at), got, want)
					}
				default:
					n, limit := chance.IntN(4), chance.IntN(12)*chance.IntN(2)
					got, want := l.Take(key, n, limit), a.take(key, now, n, limit)
					if got != want {
						t.Fatalf("%s takes %d, limit %d: %+v: want %+v", key, n, limit, got, want)
					}
					taken[key] = time.Now()
				}
			}
		})
	})
}

// maxDebt is the Config.MaxDebt that allows so much.
func maxDebt(debt int) int {
	if debt == 0 {
		return -1
	}
	return debt
}
