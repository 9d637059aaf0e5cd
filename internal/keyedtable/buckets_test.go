package keyedtable_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
)

func buckets(t *testing.T, perSecond, burst int) *keyedtable.Buckets[string] {
	t.Helper()
	l, err := keyedtable.NewBuckets[string](gcra.Per(perSecond, time.Second, burst), keyedtable.Config{})
	testrig.Must(t, err)
	return l
}

// The bucket that is settled is the one that decided.
func TestSettleBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := buckets(t, 1, 5)
		d, q, a := l.Decide("a", 4)
		if !d.OK || d.Remaining != 1 || *q != gcra.Per(1, time.Second, 5) {
			t.Errorf("%+v under %v", d, q)
		}
		if held := l.Settle(a, 4, 1); held != 1 || l.Take("a", 0).Remaining != 4 || l.Take("b", 0).Remaining != 5 {
			t.Errorf("%d is charged; a has %d, b %d", held, l.Take("a", 0).Remaining, l.Take("b", 0).Remaining)
		}
	})
}

// A decision that is made late is made as if in time: the tokens that came in
// since are there for the next.
func TestTakeBucketAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := buckets(t, 10, 1)
		start := time.Now()
		time.Sleep(time.Second)
		for i := range 10 {
			at := start.Add(time.Duration(i) * time.Second / 10)
			if d := l.TakeAt(l.Fingerprint("a"), at, 1); !d.OK {
				t.Errorf("%d: %+v", i, d)
			}
			if d := l.TakeAt(l.Fingerprint("a"), at, 1); d.OK || d.RetryAfter != time.Second/10 {
				t.Errorf("%d, once more: %+v", i, d)
			}
		}
		if d := l.TakeAt(l.Fingerprint("a"), start, 1); d.OK || d.RetryAfter != time.Second {
			t.Errorf("time that has been taken already: %+v", d)
		}
		if !l.Allow("a") || l.Allow("a") {
			t.Error("now there is one more, not two")
		}
	})
}

// A fingerprint stands for its key; its denials are counted, but for no key.
func TestTakeBucketByFingerprint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := buckets(t, 1, 2)
		a, b, now := l.Fingerprint("a"), l.Fingerprint("b"), time.Now()
		if !l.TakeAt(a, now, 2).OK || l.Allow("a") || !l.TakeAt(b, now, 2).OK {
			t.Error("it does not stand for its key")
		}
		if d := l.TakeAt(a, now, 1); d.OK || d.RetryAfter != time.Second || !l.TakeAt(a, now.Add(time.Second), 1).OK {
			t.Errorf("a second early: %+v", d)
		}
		if top := l.Top(5); l.Stats().Denied != 2 || len(top) != 1 || top[0].Key != "a" || top[0].Count != 1 {
			t.Errorf("%d denials; denied most: %+v", l.Stats().Denied, top)
		}
	})
}

func TestTopOfBuckets(t *testing.T) {
	l, err := keyedtable.NewBuckets[string](gcra.Per(1, time.Hour, 1), keyedtable.Config{Memory: 1 << 20})
	testrig.Must(t, err)
	for i := range 1000 {
		l.Allow("worst")
		if i%2 == 0 {
			l.Allow("bad")
		}
		for j := range 10 { // many keys that are denied once
			key := fmt.Sprint(i, j)
			l.Allow(key)
			l.Allow(key)
		}
	}
	top := l.Top(2)
	if len(top) != 2 || top[0].Key != "worst" || top[1].Key != "bad" {
		t.Fatalf("%+v: want worst and bad", top)
	}
	for i, want := range []uint64{999, 499} {
		if d := top[i]; d.Count < want || d.Count-d.Over > want {
			t.Errorf("%+v: want %d in between", d, want)
		}
	}
	for _, d := range l.Top(1 << 30) {
		if d.Key != "worst" && d.Key != "bad" && d.Count-d.Over > 1 {
			t.Errorf("%+v: it was denied once", d)
		}
	}
	if s := l.Stats(); s.Denied != 999+499+10000 {
		t.Errorf("%+v", s)
	}
	if n := len(l.Top(1 << 30)); n > 256*8 {
		t.Errorf("%d keys", n)
	}
	if n := len(l.Top(-1)); n != 0 {
		t.Errorf("%d keys: want none", n)
	}
}

// A call may bring a Quota with a smaller burst, and two numbers tell buckets of a key
// apart.
func TestTakeUnder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := buckets(t, 10, 100)
		q := gcra.Per(10, time.Second, 5)
		a, b := l.FingerprintWith("a", 1, 2), l.FingerprintWith("a", 2, 1)
		if a == b || a == l.Fingerprint("a") || a != l.FingerprintWith("a", 1, 2) {
			t.Error("fingerprints must differ with the numbers alone")
		}
		if d := l.TakeUnder(a, time.Now(), 6, &q); d.OK || d.Remaining != 5 {
			t.Errorf("more than the burst: %+v", d)
		}
		if d := l.TakeUnder(a, time.Now(), 5, &q); !d.OK || d.Remaining != 0 || d.ResetAfter != time.Second/2 {
			t.Errorf("the burst: %+v", d)
		}
		if d := l.TakeUnder(a, time.Now(), 1, &q); d.OK || d.RetryAfter != time.Second/10 {
			t.Errorf("one more: %+v", d)
		}
		if d := l.TakeUnder(b, time.Now(), 5, &q); !d.OK {
			t.Errorf("another bucket: %+v", d)
		}
		l.Settle(a, 5, 2)
		if d := l.TakeUnder(a, time.Now(), 3, &q); !d.OK {
			t.Errorf("tokens that were returned: %+v", d)
		}
	})
}

func newBuckets(t *testing.T, q gcra.Quota) bucketed {
	t.Helper()
	b, err := keyedtable.NewBuckets[string](q, keyedtable.Config{})
	testrig.Must(t, err)
	return bucketed{b}
}

type bucketed struct{ *keyedtable.Buckets[string] }

func (b bucketed) take(key string, n int) int { return b.Take(key, n).Remaining }
