package keyed_test

import (
	"bytes"
	"io"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/keyed"
)

func newWindows[K comparable](t testing.TB, w keyed.Window, cfg keyed.Config) *keyed.Windows[K] {
	t.Helper()
	l, err := keyed.NewWindows[K](w, cfg)
	testrig.Must(t, err)
	return l
}

// A key is used up until its window ends; the others are not.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWindows[int](t, keyed.Window{Limit: 2, Period: time.Minute}, keyed.Config{})
		if d := l.Take(1, 2); !d.OK || d.Remaining != 0 || d.ResetAfter != time.Minute {
			t.Errorf("%+v", d)
		}
		if d := l.Take(1, 1); d.OK || d.RetryAfter != time.Minute || !l.Take(2, 1).OK {
			t.Errorf("%+v", d)
		}
		if used, resetIn := usedOf(l, 2, 1); used != 2 || resetIn != time.Minute {
			t.Errorf("%d used, for %v", used, resetIn)
		}
		if charged := l.Settle(1, time.Now(), 2, 1); charged != 1 || !l.Take(1, 1).OK {
			t.Errorf("%d are charged: want room for one more", charged)
		}
		l.SetWindow(keyed.Window{Limit: 3, Period: time.Minute})
		if !l.Take(1, 1).OK || l.Take(1, 1).OK {
			t.Error("want one more of three, after two")
		}
		if st := l.Stats(); st.Denied != 2 || st.Memory == 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		if top := topOf(l, 1); len(top) != 1 || top[0] != (denied[int]{1, 2}) {
			t.Errorf("%+v", top)
		}
		time.Sleep(time.Minute)
		if !l.Take(1, 3).OK {
			t.Error("a new window has none left")
		}
	})
}

// Addresses are masked in windows as in buckets, and a snapshot of them is read only
// for the same kind of keys.
func TestWindowsOfAddresses(t *testing.T) {
	w := keyed.Window{Limit: 1, Period: time.Hour}
	l := newWindows[netip.Addr](t, w, keyed.Config{})
	a, b, c := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::99"), netip.MustParseAddr("2001:db8:0:1::")
	if !l.Take(a, 1).OK || l.Take(b, 1).OK || !l.Take(c, 1).OK {
		t.Error("the first two are one key, and not the third")
	}
	if top := topOf(l, 9); len(top) != 1 || top[0].key != netip.MustParseAddr("2001:db8::") {
		t.Errorf("%+v: want the network", top)
	}
	var kept bytes.Buffer
	testrig.Must(t, l.Snapshot(&kept))
	next := newWindows[netip.Addr](t, w, keyed.Config{})
	if err := next.Restore(bytes.NewReader(kept.Bytes())); err != nil || next.Take(b, 1).OK {
		t.Errorf("%v: want it used up", err)
	}
	for _, restore := range []func(io.Reader) error{
		newWindows[netip.Prefix](t, w, keyed.Config{}).Restore,
		newWindows[string](t, w, keyed.Config{}).Restore,
		newLimiter[netip.Addr](t, perSecond(1, 1), keyed.Config{}).Restore,
	} {
		if err := restore(bytes.NewReader(kept.Bytes())); err == nil {
			t.Error("a snapshot of other keys is taken")
		}
	}
}

func TestWindowsOfUnstableKeys(t *testing.T) {
	l := newWindows[float64](t, keyed.Window{Limit: 1, Period: time.Hour}, keyed.Config{})
	if !l.Take(math.Pi, 1).OK || l.Take(math.Pi, 1).OK {
		t.Error("want one event")
	}
	var b bytes.Buffer
	for _, err := range []error{l.Snapshot(&b), l.Restore(&b)} {
		if err == nil || !strings.Contains(err.Error(), "no snapshots") {
			t.Error(err)
		}
	}
}

// A day ends at midnight at the location, for all keys at once, also for one that
// begins late, and when a unit comes back or a process takes over.
func TestCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight in UTC, on a Saturday
		oslo := time.FixedZone("CET", 3600)
		day := keyed.Window{Limit: 2, Calendar: keyed.Day, Location: oslo}
		l := newWindows[int](t, day, keyed.Config{})
		if d := l.Take(1, 2); !d.OK || d.ResetAfter != 23*time.Hour {
			t.Errorf("%+v: want it to last until midnight in Oslo", d)
		}
		time.Sleep(22 * time.Hour)
		if d := l.Take(2, 2); !d.OK || d.ResetAfter != time.Hour {
			t.Errorf("%+v: want the same end", d)
		}
		if d := l.Take(1, 1); d.OK || d.RetryAfter != time.Hour {
			t.Errorf("%+v", d)
		}
		if charged := l.Settle(1, time.Now(), 2, 1); charged != 1 {
			t.Errorf("%d are charged", charged)
		}
		l.SetWindow(keyed.Window{Limit: 3, Calendar: keyed.Day, Location: oslo})
		var kept bytes.Buffer
		testrig.Must(t, l.Snapshot(&kept))
		for _, w := range []keyed.Window{day, {Limit: 2, Calendar: keyed.Day}, {Limit: 2, Calendar: keyed.Month}, {Limit: 2, Period: time.Hour}, {Limit: 2, Period: time.Hour, Calendar: keyed.Sliding}} {
			next := newWindows[int](t, w, keyed.Config{})
			testrig.Must(t, next.Restore(bytes.NewReader(kept.Bytes())))
			if used, _ := usedOf(next, w.Limit, 1); used != 1 || next.Take(2, 1).OK {
				t.Errorf("%+v: %d used after a restart: want 1", w, used)
			}
			if _, resetIn := usedOf(next, w.Limit, 2); w.Calendar == keyed.Day && resetIn != time.Hour*time.Duration(1+btoi(w.Location == nil)) {
				t.Errorf("%+v: it lasts for %v: want until midnight", w, resetIn)
			}
		}
		for loc, want := range map[*time.Location]time.Duration{time.UTC: 2 * time.Hour, oslo: time.Hour} {
			l.SetWindow(keyed.Window{Limit: 3, Calendar: keyed.Day, Location: loc})
			if used, resetIn := usedOf(l, 3, 1); used != 1 || resetIn != want {
				t.Errorf("in %v: %d used for %v: want 1 for %v", loc, used, resetIn, want)
			}
		}
		l.SetWindow(keyed.Window{Limit: 3, Calendar: keyed.Day, Location: oslo})
		time.Sleep(time.Hour)
		if d := l.Take(1, 3); !d.OK || d.ResetAfter != 24*time.Hour {
			t.Errorf("%+v: want a new day", d)
		}
	})
}

// usedOf returns how many of the limit of events the key has used, and for how long.
func usedOf(l *keyed.Windows[int], limit, key int) (used int, resetIn time.Duration) {
	d := l.Take(key, 0)
	return limit - d.Remaining, d.ResetAfter
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestCalendars(t *testing.T) {
	const day = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(90 * time.Second) // 2000-01-01 00:01:30, a Saturday
		for c, want := range map[keyed.Calendar]time.Duration{
			0: time.Minute, keyed.Clock: 30 * time.Second, keyed.Day: day - 90*time.Second,
			keyed.Week: 2*day - 90*time.Second, keyed.WeekFromSunday: day - 90*time.Second, keyed.WeekFromSaturday: 7*day - 90*time.Second,
			keyed.Month: 31*day - 90*time.Second, keyed.Year: 366*day - 90*time.Second,
		} {
			l := newWindows[string](t, keyed.Window{Limit: 1, Period: time.Minute, Calendar: c}, keyed.Config{})
			if d := l.Take("a", 1); !d.OK || d.ResetAfter != want {
				t.Errorf("calendar %d: %+v: want it to last for %v", c, d, want)
			}
			if d := l.Take("a", 1); d.OK || d.RetryAfter != want {
				t.Errorf("calendar %d: %+v", c, d)
			}
		}
	})
}

// With a flood of keys, more than memory has places for, no key begins a day of
// its own: all may be used again at midnight.
func TestCalendarUnderFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newWindows[int](t, keyed.Window{Limit: 2, Calendar: keyed.Day}, keyed.Config{Memory: keyed.MinMemory})
		time.Sleep(12 * time.Hour)
		for i := range 20_000 {
			if d := l.Take(i, 1); d.OK && d.ResetAfter != 12*time.Hour || !d.OK && d.RetryAfter != 12*time.Hour {
				t.Fatalf("key %d: %+v", i, d)
			}
			if _, resetIn := usedOf(l, 2, i); resetIn != 12*time.Hour {
				t.Fatalf("key %d lasts for %v", i, resetIn)
			}
		}
		if l.Stats().Forgotten == 0 {
			t.Error("nothing was forgotten: the flood is too small")
		}
		time.Sleep(12 * time.Hour)
		for i := range 100 {
			if d := l.Take(i, 1); !d.OK || d.ResetAfter != 24*time.Hour {
				t.Fatalf("key %d at midnight: %+v", i, d)
			}
		}
	})
}

// An unknown Calendar is an error, and under SetWindow a panic.
func TestUnknownCalendar(t *testing.T) {
	for _, c := range []keyed.Calendar{-1, keyed.Year + 1} {
		if _, err := keyed.NewWindows[int](keyed.Window{Limit: 1, Calendar: c}, keyed.Config{}); err == nil ||
			!strings.HasPrefix(err.Error(), "keyed: Calendar = ") {
			t.Errorf("%d: %v", c, err)
		}
		l := newWindows[int](t, keyed.Window{Limit: 1}, keyed.Config{})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d: no panic", c)
				}
			}()
			l.SetWindow(keyed.Window{Limit: 1, Calendar: c})
		}()
	}
}
