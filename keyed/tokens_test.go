package keyed_test

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

// A key tells its stock now and later, debt included, and keeps to its burst.
func TestTokensAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 4), keyed.Config{})
		a := l.For("a")
		l.Take("a", 3)
		l.Settle("a", 3, 6)
		now := time.Now()
		for after, want := range map[time.Duration]float64{0: -2, 200 * ms: 0, 350 * ms: 1.5, time.Hour: 4} {
			if got := a.TokensAt(now.Add(after)); math.Abs(got-want) > 1e-6 {
				t.Errorf("after %v: %v tokens: want %v", after, got, want)
			}
		}
		if got := l.TokensAt("b", now); got != 4 || a.Burst() != 4 {
			t.Errorf("another has %v tokens, of %d: want 4", got, a.Burst())
		}
		l.SetQuotaFor("a", gcra.Unlimited())
		if got := a.TokensAt(now); !math.IsInf(got, 1) {
			t.Errorf("without a limit: %v tokens", got)
		}
	})
}

// What is settled is the bucket that decided.
func TestSettleBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(1, 5), keyed.Config{})
		d, q, a := l.Decide("a", 4)
		if !d.OK || d.Remaining != 1 || q != perSecond(1, 5) {
			t.Errorf("%+v under %v", d, q)
		}
		if held := l.SettleBucket(a, 4, 1); held != 1 || l.Take("a", 0).Remaining != 4 || l.Take("b", 0).Remaining != 5 {
			t.Errorf("%d is charged; a has %d, b %d", held, l.Take("a", 0).Remaining, l.Take("b", 0).Remaining)
		}
	})
}

// Whoever decides late decides as if in time: what came in since is there for
// the next.
func TestTakeAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(10, 1), keyed.Config{})
		start := time.Now()
		time.Sleep(time.Second)
		for i := range 10 {
			at := start.Add(time.Duration(i) * time.Second / 10)
			if d := l.TakeAt("a", at, 1); !d.OK {
				t.Errorf("%d: %+v", i, d)
			}
			if d := l.TakeAt("a", at, 1); d.OK || d.RetryAfter != time.Second/10 {
				t.Errorf("%d, once more: %+v", i, d)
			}
		}
		if d := l.TakeAt("a", start, 1); d.OK || d.RetryAfter != time.Second {
			t.Errorf("time that has been taken already: %+v", d)
		}
		if !l.Allow("a") || l.Allow("a") {
			t.Error("now there is one more, not two")
		}
	})
}

// A Bucket is that of its key; its denials are counted, but nobody's.
func TestTakeBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter[string](t, perSecond(1, 2), keyed.Config{})
		a, b, now := l.BucketOf("a"), l.BucketOf("b"), time.Now()
		if !l.TakeBucket(a, now, 2).OK || l.Allow("a") || !l.TakeBucket(b, now, 2).OK {
			t.Error("it is not the bucket of its key")
		}
		if d := l.TakeBucket(a, now, 1); d.OK || d.RetryAfter != time.Second || !l.TakeBucket(a, now.Add(time.Second), 1).OK {
			t.Errorf("a second early: %+v", d)
		}
		if top := l.Top(5); l.Stats().Denied != 2 || len(top) != 1 || top[0].Key != "a" || top[0].Count != 1 {
			t.Errorf("%d denials; denied most: %+v", l.Stats().Denied, top)
		}
	})
}

// Where nobody asks which keys are denied most, none is kept, also after a
// Restore.
func TestNoTop(t *testing.T) {
	l := newLimiter[string](t, perSecond(1, 1), keyed.Config{NoTop: true})
	for range 2 {
		for range 3 {
			l.Take("a", 1)
		}
		if top := l.Top(9); len(top) > 0 || l.Stats().Denied == 0 {
			t.Errorf("%d denied; kept are %v", l.Stats().Denied, top)
		}
		var b bytes.Buffer
		if err := errors.Join(l.Snapshot(&b), l.Restore(&b)); err != nil {
			t.Fatal(err)
		}
	}
}
