package keyedtable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
)

func TestSetWindow(t *testing.T) {
	type quota = keyedtable.Window
	const s, m = time.Second, time.Minute
	for _, tt := range []struct {
		rule   string
		q, to  quota
		taken  int // 30 s after the minute; the change is 15 s later
		left   int
		resets time.Duration
	}{
		{"a larger limit leaves more", quota{Limit: 10, Period: m}, quota{Limit: 20, Period: m}, 4, 16, 45 * s},
		{"a smaller one less", quota{Limit: 10, Period: m}, quota{Limit: 5, Period: m}, 4, 1, 45 * s},
		{"or nothing", quota{Limit: 10, Period: m}, quota{Limit: 3, Period: m}, 4, 0, 45 * s},
		{"sliding too", quota{Limit: 10, Period: m, Sliding: true}, quota{Limit: 20, Period: m, Sliding: true}, 4, 16, 75 * s},
		{"a shorter window begins now", quota{Limit: 10, Period: m}, quota{Limit: 10, Period: s}, 4, 6, s},
		{"a longer one too", quota{Limit: 10, Period: m}, quota{Limit: 10, Period: time.Hour}, 4, 6, time.Hour},
		{"what used less than it may is not cut", quota{Limit: 100, Period: m}, quota{Limit: 10, Period: s}, 40, 0, s},
		{"a shorter one that slides", quota{Limit: 10, Period: m, Sliding: true}, quota{Limit: 10, Period: s, Sliding: true}, 4, 6, 2 * s},
		{"a longer one that slides", quota{Limit: 10, Period: m, Sliding: true}, quota{Limit: 10, Period: time.Hour, Sliding: true}, 4, 6, 2*time.Hour - 45*s},
		{"to sliding", quota{Limit: 10, Period: m}, quota{Limit: 10, Period: m, Sliding: true}, 4, 6, 75 * s},
		{"from sliding", quota{Limit: 10, Period: m, Sliding: true}, quota{Limit: 10, Period: m}, 4, 6, m},
		{"who used nothing has used nothing", quota{Limit: 10, Period: m, Sliding: true}, quota{Limit: 10, Period: s}, 0, 10, 0},
		{"who had used what has ended neither", quota{Limit: 10, Period: s}, quota{Limit: 10, Period: m}, 4, 10, 0},
		{"nor what has faded", quota{Limit: 10, Period: s, Sliding: true}, quota{Limit: 10, Period: m}, 4, 10, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(30 * s)
				l := newLimiter(t, tt.q, keyedtable.Config{})
				l.Take("a", tt.taken, 0)
				at := time.Now()
				time.Sleep(15 * s)
				l.SetWindow(tt.to)
				if d := l.Take("a", 0, 0); d.Remaining != tt.left || d.ResetAfter != tt.resets {
					t.Errorf("%+v: want %d left, and all in %v", d, tt.left, tt.resets)
				}
				if d := l.Take("b", 0, 0); d.Remaining != tt.to.Limit {
					t.Errorf("who was not there: %+v", d)
				}
				used, _ := l.Used("a")
				if l.SettleAt("a", at, 4, 0); tt.q.Period != tt.to.Period && !tt.to.Sliding {
					if after, _ := l.Used("a"); after != used {
						t.Errorf("what was counted before is given back to a window that began since: %d of %d", used-after, used)
					}
				}
			})
		})
	}
}

// The estimate counts that the last window leaves.
func TestSetQuotaAmidFading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, sliding(perSecond(10)), keyedtable.Config{})
		l.Take("a", 10, 0)
		time.Sleep(1250 * ms) // 7.5 are left of that
		l.SetWindow(perSecond(10))
		if used, reset := l.Used("a"); used != 8 || reset != time.Second {
			t.Errorf("%d for %v", used, reset)
		}
	})
}
