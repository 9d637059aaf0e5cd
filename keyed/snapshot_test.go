package keyed_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/keyed"
)

func snapshot[K comparable](t testing.TB, l *keyed.Limiter[K]) []byte {
	t.Helper()
	var b bytes.Buffer
	testrig.Must(t, l.Snapshot(&b))
	return b.Bytes()
}

// A process that starts again goes on where the last one ended: time has
// passed, and nothing else has changed.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quota := gcra.Per(1, time.Second, 100)
		old := newLimiter[string](t, quota, keyed.Config{})
		for i := range 5000 {
			old.Take(fmt.Sprint("user", i), i%100)
		}
		old.SetQuotaFor("own", new(gcra.Per(10, time.Second, 100)))
		old.Take("own", 100)
		old.Settle("own", 0, 20)
		old.Take("waits", 100)
		go old.For("waits").WaitN(t.Context(), 5)
		synctest.Wait()
		saved := snapshot(t, old)
		time.Sleep(7 * time.Second)
		for name, l := range map[string]*keyed.Limiter[string]{
			"the same quota": newLimiter[string](t, quota, keyed.Config{}),
			"another rate":   newLimiter[string](t, gcra.Per(7, time.Minute, 100), keyed.Config{}),
			"another memory": newLimiter[string](t, quota, keyed.Config{Memory: 1 << 20}),
			"the old one":    old,
		} {
			l.Take("stale", 100)
			l.SetQuotaFor("own", new(gcra.Per(10, time.Second, 100)))
			testrig.Must(t, l.Restore(bytes.NewReader(saved)))
			since := 7 // tokens that have come in
			if name == "another rate" {
				since = 7 * 7 / 60
			}
			for i := range 5000 {
				want := min(100-i%100+since, 100)
				if d := l.Take(fmt.Sprint("user", i), 0); d.Remaining != want {
					t.Fatalf("%s: user%d has %d left: want %d", name, i, d.Remaining, want)
				}
			}
			for key, want := range map[string]int{"own": 50, "waits": since, "stale": 100} {
				if d := l.Take(key, 0); d.Remaining != want {
					t.Errorf("%s: %s has %d left: want %d", name, key, d.Remaining, want)
				}
			}
			if s := l.Stats(); s.Own != 1 || s.Forgotten != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		time.Sleep(time.Hour)
	})
}

func TestSnapshotOfAddresses(t *testing.T) {
	l := newLimiter[netip.Addr](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	a := netip.MustParseAddr("2001:db8::1")
	l.Allow(a)
	again := newLimiter[netip.Addr](t, gcra.Per(1, time.Hour, 1), keyed.Config{})
	testrig.Must(t, again.Restore(bytes.NewReader(snapshot(t, l))))
	if again.Allow(a.Next()) || !again.Allow(netip.MustParseAddr("2001:db9::")) {
		t.Error("want the site known, and no other")
	}
}

// What is not stable from process to process cannot be written.
func TestSnapshotOfUnstableKeys(t *testing.T) {
	l := newLimiter[struct{ a, b string }](t, perSecond(1, 1), keyed.Config{})
	var b bytes.Buffer
	for _, err := range []error{l.Snapshot(&b), l.Restore(&b)} {
		if err == nil || !strings.Contains(err.Error(), "no snapshots of this type of keys") {
			t.Error(err)
		}
	}
	if b.Len() > 0 {
		t.Error("something is written")
	}
}

// A key with a quota for it alone keeps its tokens under it.
func TestSnapshotOfOwnQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := func() *keyed.Limiter[string] {
			l := newLimiter[string](t, perSecond(100, 100), keyed.Config{})
			l.SetQuotaFor("abuser", new(gcra.Per(1, time.Hour, 5)))
			l.SetQuotaFor("partner", new(perSecond(1, 1000)))
			return l
		}
		old := made()
		old.Take("abuser", 5)
		old.Take("partner", 10)
		saved := snapshot(t, old)
		time.Sleep(2 * time.Second)
		l := made()
		testrig.Must(t, l.Restore(bytes.NewReader(saved)))
		for key, want := range map[string]int{"abuser": 0, "partner": 992} {
			if d := l.Take(key, 0); d.Remaining != want {
				t.Errorf("%s has %d left: want %d", key, d.Remaining, want)
			}
		}
	})
}

// What was decided before a snapshot is in it, whatever happens meanwhile:
// pages split, and keys come to wait and leave.
func TestSnapshotUnderLoad(t *testing.T) {
	quota := gcra.Per(1, 24*time.Hour, 3)
	old := newLimiter[int](t, quota, keyed.Config{Memory: 8 << 20})
	const keys = 20_000
	for key := range keys {
		old.Take(key, 3)
	}
	fresh := keys
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var file bytes.Buffer
	busy := writer(func(p []byte) (int, error) {
		for range 4000 {
			old.Allow(fresh)
			fresh++
		}
		go old.For(fresh%keys).WaitN(ctx, 1)
		return file.Write(p)
	})
	testrig.Must(t, old.Snapshot(busy))
	l := newLimiter[int](t, quota, keyed.Config{Memory: 8 << 20})
	testrig.Must(t, l.Restore(&file))
	for key := range keys {
		if d := l.Take(key, 0); d.Remaining != 0 {
			t.Fatalf("key %d has %d left again", key, d.Remaining)
		}
	}
	if old.Stats().Forgotten > 0 {
		t.Error("memory is too small for this test")
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A snapshot is for the same type of keys only.
func TestSnapshotOfOtherKeys(t *testing.T) {
	saved := snapshot(t, newLimiter[int](t, perSecond(1, 1), keyed.Config{}))
	const want = "another type of keys"
	if err := newLimiter[string](t, perSecond(1, 1), keyed.Config{}).Restore(bytes.NewReader(saved)); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	saved = snapshot(t, newLimiter[netip.Addr](t, perSecond(1, 1), keyed.Config{}))
	if err := newLimiter[netip.Prefix](t, perSecond(1, 1), keyed.Config{}).Restore(bytes.NewReader(saved)); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// Restore takes a whole snapshot or none of it.
func TestRestoreOfDamagedSnapshots(t *testing.T) {
	l := newLimiter[string](t, gcra.Per(1, time.Hour, 2), keyed.Config{Memory: keyed.MinMemory})
	for i := range 100 {
		l.Allow(fmt.Sprint(i))
	}
	good := snapshot(t, l)
	l.Allow("0")
	unchanged := func(what string) {
		t.Helper()
		if d := l.Take("0", 0); d.Remaining != 0 {
			t.Fatalf("%s: something is changed", what)
		}
	}
	for n := range len(good) {
		if err := l.Restore(bytes.NewReader(good[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes of %d: %v", n, len(good), err)
		}
	}
	unchanged("cut short")
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if err := l.Restore(bytes.NewReader(bad)); err == nil {
			t.Fatalf("byte %d of %d is wrong: no error", i, len(good))
		}
	}
	unchanged("a wrong byte")
	if err := l.Restore(strings.NewReader("not a snapshot, but long enough to be the header of one, or is it? no.")); err == nil || !strings.Contains(err.Error(), "not a snapshot") {
		t.Error(err)
	}
	boom := errors.New("boom")
	if err := l.Restore(io.MultiReader(bytes.NewReader(good[:200]), iotest.ErrReader(boom))); !errors.Is(err, boom) {
		t.Error(err)
	}
	unchanged("a broken reader")
	for n := range 3 {
		if err := l.Snapshot(&limited{n * 100}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%d bytes: %v", n*100, err)
		}
	}
	if err := l.Restore(bytes.NewReader(good)); err != nil {
		t.Error(err)
	}
	if d := l.Take("0", 0); d.Remaining != 1 {
		t.Errorf("%+v: want what the snapshot says", d)
	}
}

type limited struct{ left int }

func (w *limited) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// Bytes that are no snapshot do no harm, even with a good checksum.
func FuzzRestore(f *testing.F) {
	l := newLimiter[string](f, gcra.Per(1, time.Hour, 2), keyed.Config{Memory: keyed.MinMemory})
	l.Allow("a")
	f.Add(snapshot(f, l))
	l.SetQuota(gcra.Unlimited())
	f.Add(snapshot(f, l))
	l.SetQuota(gcra.PerSecond(0.3, 7))
	f.Add(snapshot(f, l))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4 {
			binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
		}
		l := newLimiter[string](t, gcra.Per(1, time.Hour, 2), keyed.Config{Memory: keyed.MinMemory})
		if l.Restore(bytes.NewReader(b)) != nil {
			return
		}
		for _, key := range []string{"a", "b"} {
			if d := l.Take(key, 1); d.Remaining < 0 || d.Remaining > 2 || d.RetryAfter < 0 {
				t.Errorf("%+v", d)
			}
		}
		snapshot(t, l)
	})
}
