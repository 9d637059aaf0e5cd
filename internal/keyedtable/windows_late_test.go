package keyedtable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
)

// A decision that is made late is made as if in time: the next window begins when
// it should have.
func TestTakeAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := keyedtable.NewWindows[string](keyedtable.Window{Limit: 1, Period: time.Second}, keyedtable.Config{})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if !l.Take("a", 1, 0).OK {
			t.Fatal("the first is denied")
		}
		time.Sleep(3*time.Second + time.Second/2)
		for i := 1; i <= 3; i++ {
			at := start.Add(time.Duration(i) * time.Second)
			if d := l.TakeAt(l.Fingerprint("a"), at, 1, 0); !d.OK {
				t.Errorf("window %d: %+v", i, d)
			}
			if d := l.TakeAt(l.Fingerprint("a"), at, 1, 0); d.OK || d.RetryAfter != time.Second {
				t.Errorf("window %d, once more: %+v", i, d)
			}
		}
		if d := l.Take("a", 1, 0); d.OK || d.RetryAfter != time.Second/2 {
			t.Errorf("now: %+v", d)
		}
	})
}

// A fingerprint stands for its key; its denials are counted, but for no key.
func TestTakeByFingerprint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, perSecond(2), keyedtable.Config{})
		a, b, now := l.Fingerprint("a"), l.Fingerprint("b"), time.Now()
		if !l.TakeAt(a, now, 2, 0).OK || l.Take("a", 1, 0).OK || !l.TakeAt(b, now, 2, 0).OK {
			t.Error("it does not stand for its key")
		}
		if d := l.TakeAt(a, now, 1, 0); d.OK || d.RetryAfter != time.Second || !l.TakeAt(a, now.Add(time.Second), 1, 0).OK {
			t.Errorf("a second early: %+v", d)
		}
		if top := l.Top(5); l.Stats().Denied != 2 || len(top) != 1 || top[0].Key != "a" || top[0].Count != 1 {
			t.Errorf("%d denials; denied most: %+v", l.Stats().Denied, top)
		}
	})
}
