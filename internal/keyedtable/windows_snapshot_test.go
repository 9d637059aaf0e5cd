package keyedtable_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/internal/keyedtable"
)

func snapshot(t testing.TB, l *keyedtable.Windows[string]) []byte {
	t.Helper()
	var b bytes.Buffer
	testrig.Must(t, l.Snapshot(&b))
	return b.Bytes()
}

// again returns a Limiter with the counts of another.
func again(t testing.TB, l *keyedtable.Windows[string], q keyedtable.Window, cfg keyedtable.Config) *keyedtable.Windows[string] {
	t.Helper()
	next := newLimiter(t, q, cfg)
	testrig.Must(t, next.Restore(bytes.NewReader(snapshot(t, l))))
	return next
}

// A process that starts again goes on where the last one ended: time has passed,
// and nothing else has changed.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := keyedtable.Window{Limit: 100, Period: time.Minute}
		for _, q := range []keyedtable.Window{minute, sliding(minute)} {
			old := newLimiter(t, q, keyedtable.Config{})
			for i := range 5000 {
				old.Take(fmt.Sprint("user", i), i%100, 0)
				time.Sleep(ms)
			}
			at := time.Now()
			saved := snapshot(t, old)
			time.Sleep(7 * time.Second)
			larger := q
			larger.Limit = 1000
			for name, l := range map[string]*keyedtable.Windows[string]{
				"the same":       newLimiter(t, q, keyedtable.Config{}),
				"another limit":  newLimiter(t, larger, keyedtable.Config{}),
				"another memory": newLimiter(t, q, keyedtable.Config{Memory: 1 << 20}),
				"the old one":    old,
			} {
				l.Take("stale", 100, 0)
				testrig.Must(t, l.Restore(bytes.NewReader(saved)))
				for i := range 5000 {
					began := time.Since(at) + time.Duration(5000-i)*ms // ago
					reset := time.Minute - began
					if q.Sliding {
						reset = 2*time.Minute - time.Since(time.Now().Truncate(time.Minute))
					}
					if used, r := l.Used(fmt.Sprint("user", i)); used != i%100 || used > 0 && r != reset {
						t.Fatalf("%s: user%d has used %d, for %v: want %d, for %v", name, i, used, r, i%100, reset)
					}
				}
				if used, _ := l.Used("stale"); used != 0 {
					t.Errorf("%s: there are %d from before", name, used)
				}
				if s := l.Stats(); s.Forgotten != 0 || s.Denied != 0 {
					t.Errorf("%s: %+v", name, s)
				}
			}
			time.Sleep(time.Minute - time.Since(time.Now().Truncate(time.Minute)))
		}
	})
}

// Under another period, or kind, counts are as after SetQuota.
func TestRestoreUnderAnotherQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newLimiter(t, sliding(perSecond(10)), keyedtable.Config{})
		old.Take("a", 10, 0)
		old.Take("b", 3, 0)
		time.Sleep(1250 * ms)
		old.Take("b", 3, 0)
		l := again(t, old, keyedtable.Window{Limit: 20, Period: time.Minute}, keyedtable.Config{})
		for key, want := range map[string]int{"a": 8, "b": 6, "c": 0} { // 7.5 and 5.25 are left
			if used, reset := l.Used(key); used != want || used > 0 && reset != time.Minute {
				t.Errorf("%s has used %d for %v: want %d", key, used, reset, want)
			}
		}
	})
}

// What was decided before a snapshot is in it, whatever splits
// meanwhile.
func TestSnapshotUnderLoad(t *testing.T) {
	q := keyedtable.Window{Limit: 3}
	old := newLimiter(t, q, keyedtable.Config{Memory: 8 << 20})
	const keys = 20_000
	for key := range keys {
		old.Take(fmt.Sprint(key), 3, 0)
	}
	fresh := keys
	var file bytes.Buffer
	busy := writer(func(p []byte) (int, error) {
		for range 4000 {
			old.Take(fmt.Sprint(fresh), 1, 0)
			fresh++
		}
		return file.Write(p)
	})
	testrig.Must(t, old.Snapshot(busy))
	l := newLimiter(t, q, keyedtable.Config{Memory: 8 << 20})
	testrig.Must(t, l.Restore(&file))
	for key := range keys {
		if d := l.Take(fmt.Sprint(key), 0, 0); d.Remaining != 0 {
			t.Fatalf("key %d has %d left again", key, d.Remaining)
		}
	}
	if old.Stats().Forgotten > 0 {
		t.Error("memory is too small for this test")
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Restore takes a whole snapshot or none of it.
func TestRestoreOfDamagedSnapshots(t *testing.T) {
	l := newLimiter(t, keyedtable.Window{Limit: 2}, keyedtable.Config{Memory: keyedtable.MinMemory})
	for i := range 100 {
		l.Take(fmt.Sprint(i), 1, 0)
	}
	good := snapshot(t, l)
	l.Take("0", 1, 0)
	unchanged := func(what string) {
		t.Helper()
		if d := l.Take("0", 0, 0); d.Remaining != 0 {
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
	other, endless, buckets := bytes.Clone(good), bytes.Clone(good), bytes.Clone(good)
	buckets[25] = 'b'
	other[25] = 'x' // no kind of windows
	clear(endless[26:34])
	for bad, want := range map[string]string{
		"not a snapshot, but long enough to be the header of one": "not a snapshot",
		"weirkey4" + strings.Repeat("\x00", 100):                  "of another type of keys",
		string(buckets):                                           "it has buckets instead of windows",
		string(endless):                                           "of windows that cannot be",
		string(other):                                             "of windows that cannot be",
	} {
		if err := l.Restore(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
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
	if d := l.Take("0", 0, 0); d.Remaining != 1 {
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
	hour := keyedtable.Window{Limit: 2, Period: time.Hour}
	for _, q := range []keyedtable.Window{hour, sliding(hour), {Limit: 2}, {Limit: 2, Sliding: true}} {
		l := newLimiter(f, q, keyedtable.Config{Memory: keyedtable.MinMemory})
		f.Add(snapshot(f, l))
		l.Take("a", 1, 0)
		b := snapshot(f, l)
		f.Add(b)
		b[60] = 0x7f // a window, or its number, of the far future
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4 {
			binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
		}
		for _, q := range []keyedtable.Window{hour, sliding(hour)} {
			l := newLimiter(t, q, keyedtable.Config{Memory: keyedtable.MinMemory})
			if l.Restore(bytes.NewReader(b)) != nil {
				return
			}
			for _, key := range []string{"a", "b"} {
				if d := l.Take(key, 1, 0); d.Remaining < 0 || d.Remaining > 2 || d.RetryAfter < 0 || d.RetryAfter > 2*time.Hour || d.ResetAfter > 2*time.Hour {
					t.Errorf("%+v", d)
				}
			}
			snapshot(t, l)
		}
	})
}
