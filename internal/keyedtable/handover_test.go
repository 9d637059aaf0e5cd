package keyedtable_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/internal/window"
)

var seed = siphash.Key{K0: 3, K1: 4}

func sharedBuckets(t testing.TB, q gcra.Quota, memory int) *keyedtable.Buckets[string] {
	t.Helper()
	l, err := keyedtable.NewBuckets[string](q, keyedtable.Config{Memory: memory, MaxDebt: 1 << 30})
	testrig.Must(t, err)
	l.Share(seed)
	return l
}

func sharedWindows(t testing.TB, w keyedtable.Window) *keyedtable.Windows[string] {
	t.Helper()
	l, err := keyedtable.NewWindows[string](w, keyedtable.Config{})
	testrig.Must(t, err)
	l.Share(seed)
	return l
}

func TestSharedFingerprints(t *testing.T) {
	a, b := sharedBuckets(t, gcra.Per(1, time.Second, 1), 1<<20), sharedWindows(t, keyedtable.Window{Limit: 1})
	other := sharedBuckets(t, gcra.Per(1, time.Second, 1), 1<<20)
	other.Share(siphash.Key{K0: 5})
	for i := range 1000 {
		key := fmt.Sprint(i)
		print := a.Fingerprint(key)
		if print != b.Fingerprint(key) || uint16(print) != slot.Of(key) || uint16(a.FingerprintWith(key, 1, 2)) != slot.Of(key) {
			t.Fatalf("%q: %x", key, print)
		}
		if o := other.Fingerprint(key); o>>slot.Bits == print>>slot.Bits || uint16(o) != uint16(print) {
			t.Fatalf("%q with another seed: %x, %x", key, print, o)
		}
	}
	defer func() {
		if p := recover(); p == nil {
			t.Error("shared numbers")
		}
	}()
	l, _ := keyedtable.NewBuckets[int](gcra.Per(1, time.Second, 1), keyedtable.Config{})
	l.Share(seed)
}

// Keys of the slots leave the table, and no others, whatever the sizes of the tables are.
func TestExtractSlots(t *testing.T) {
	const keys = 20_000
	synctest.Test(t, func(t *testing.T) {
		a, b := sharedBuckets(t, gcra.Per(1, time.Hour, 5), 1<<20), sharedBuckets(t, gcra.Per(1, time.Hour, 5), 3<<20)
		var slots slot.Set
		for i := range keys {
			if a.Take(fmt.Sprint(i), 2); i%3 == 0 {
				slots.Add(slot.Of(fmt.Sprint(i)))
			}
		}
		own := gcra.Per(1, time.Hour, 50)
		a.SetQuotaFor("0", &own)
		a.Take("0", 1)
		time.Sleep(time.Minute)
		largest := 0
		for range 2 { // the second time, nothing is left
			err := a.Extract(&slots, func(part []byte) error {
				largest = max(largest, len(part))
				return b.Absorb(part, 5)
			})
			testrig.Must(t, err)
		}
		if largest == 0 || largest > 70<<10 {
			t.Errorf("a part has %d bytes", largest)
		}
		moved := 0
		for i := 1; i < keys; i++ {
			key, now := fmt.Sprint(i), time.Now()
			at, of := a.TokensAt(key, now), b.TokensAt(key, now)
			if slots.Has(slot.Of(key)) {
				at, of = of, at
				moved++
			}
			if at < 3 || at > 3.02 || of != 5 {
				t.Fatalf("%q has %v tokens where it is, and %v where it is not", key, at, of)
			}
		}
		if moved < keys/3 || moved > keys/2 {
			t.Errorf("%d keys have moved", moved)
		}
		if n := a.TokensAt("0", time.Now()); n > 48 {
			t.Errorf("a key with its own quota has %v tokens", n)
		}
	})
}

// Counts of the same window add up. Of windows that a key begins, the first one counts.
func TestWindowsAddUp(t *testing.T) {
	for name, w := range map[string]keyedtable.Window{
		"own windows": {Limit: 10, Period: time.Minute}, "sliding windows": {Limit: 10, Period: time.Minute, Sliding: true},
		"windows of the clock": {Limit: 10, Period: time.Minute, Calendar: window.Every(time.Minute, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := sharedWindows(t, w), sharedWindows(t, w)
				a.Take("k", 4, 0)
				time.Sleep(10 * time.Second)
				a.Take("k", 1, 0)
				b.Take("k", 3, 0)
				time.Sleep(time.Second)
				testrig.Must(t, a.Extract(slot.All(), b.Absorb))
				if n, _ := a.Used("k"); n != 0 {
					t.Errorf("%d are left", n)
				}
				if n, left := b.Used("k"); n != 8 || w.Sliding != (left > time.Minute) || !w.Sliding && left != 49*time.Second {
					t.Errorf("%d count for %v", n, left)
				}
				if d := b.Take("k", 3, 0); d.OK || d.Remaining != 2 {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// A debt is bounded, but a move forgives none that there was.
func TestDebtsAddUp(t *testing.T) {
	for _, tt := range []struct{ a, b, maxDebt, want int }{
		{10, 10, 100, -10}, {10, 10, 5, -5}, {10, 0, 0, 0}, {10, 10, 0, 0}, {30, 10, 5, -20}, {10, 30, 5, -20}, {0, 30, 0, -20}, {30, 0, 0, -20}, {3, 4, 0, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := sharedBuckets(t, gcra.Per(1, time.Hour, 10), 0), sharedBuckets(t, gcra.Per(1, time.Hour, 10), 0)
			a.Settle(a.Fingerprint("k"), 0, tt.a)
			b.Settle(b.Fingerprint("k"), 0, tt.b)
			testrig.Must(t, a.Extract(slot.All(), func(part []byte) error { return b.Absorb(part, tt.maxDebt) }))
			if n := b.TokensAt("k", time.Now()); int(n) != tt.want {
				t.Errorf("%+v: %v tokens", tt, n)
			}
		})
	}
}

func TestSharedSnapshot(t *testing.T) {
	q := gcra.Per(1, time.Hour, 5)
	a, b, alone := sharedBuckets(t, q, 0), sharedBuckets(t, q, 0), newBuckets(t, q).Buckets
	a.Take("k", 2)
	alone.Take("k", 2)
	save := func(l *keyedtable.Buckets[string]) *bytes.Buffer {
		var file bytes.Buffer
		testrig.Must(t, l.Snapshot(&file))
		return &file
	}
	if err := b.Restore(save(a)); err != nil || b.TokensAt("k", time.Now()) > 3.1 {
		t.Error(err, b.TokensAt("k", time.Now()))
	}
	if err := b.Restore(save(alone)); err == nil {
		t.Error("it has restored a snapshot of its own fingerprints")
	}
	other := sharedBuckets(t, q, 0)
	other.Share(siphash.Key{K0: 9})
	if err := other.Restore(save(a)); err == nil || !strings.Contains(err.Error(), "another seed") {
		t.Error(err)
	}
}

// FuzzAbsorb reads parts that no table has made.
func FuzzAbsorb(f *testing.F) {
	buckets := sharedBuckets(f, gcra.Per(1, time.Hour, 5), keyedtable.MinMemory)
	windows := sharedWindows(f, keyedtable.Window{Limit: 10, Period: time.Minute})
	buckets.Take("k", 2)
	windows.Take("k", 2, 0)
	add := func(part []byte) error {
		f.Add(bytes.Clone(part))
		return nil
	}
	if buckets.Extract(slot.All(), add) != nil || windows.Extract(slot.All(), add) != nil {
		f.Fatal("no parts")
	}
	f.Fuzz(func(t *testing.T, part []byte) {
		b := sharedBuckets(t, gcra.Per(1, time.Hour, 5), keyedtable.MinMemory)
		ok := b.Absorb(part, 5) == nil
		for _, w := range []keyedtable.Window{
			{Limit: 10, Period: time.Minute}, {Limit: 10, Period: time.Hour, Sliding: true}, {Limit: 10, Period: time.Minute, Calendar: window.Every(time.Minute, 0)},
		} {
			l := sharedWindows(t, w)
			if l.Absorb(part) == nil && ok && len(part) > 40 {
				t.Error("buckets and windows at the same time")
			}
			l.Take("k", 1, 0)
			l.Used("k")
		}
		b.Take("k", 1)
		if n := b.TokensAt("other", time.Now()); n > 5 {
			t.Errorf("%v tokens", n)
		}
	})
}
