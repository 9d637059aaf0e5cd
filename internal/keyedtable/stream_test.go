//go:build !race

package keyedtable_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/keyedtable"
)

// allocated returns the bytes that f allocates, freed ones included.
func allocated(t *testing.T, f func() error) int {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	testrig.Must(t, err)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// A snapshot is written and read in a stream: beside the table itself, it takes the same
// memory for any number of keys.
func TestSnapshotStreams(t *testing.T) {
	const most = 512 << 10
	day := 24 * time.Hour
	for kind, fresh := range map[string]func() streamed{
		"buckets": func() streamed { return newBuckets(t, gcra.Per(1, day, 3)) },
		"windows": func() streamed {
			return windowed{newLimiter(t, keyedtable.Window{Limit: 3, Period: day}, keyedtable.Config{})}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			l := fresh()
			for i := range 200_000 {
				l.take(fmt.Sprint(i), 1)
			}
			if got := allocated(t, func() error { return l.Snapshot(io.Discard) }); got > most {
				t.Errorf("Snapshot allocates %d bytes: want at most %d", got, most)
			}
			var file bytes.Buffer
			testrig.Must(t, l.Snapshot(&file))
			if file.Len() < 3<<20 {
				t.Fatalf("%d bytes: too few for this test", file.Len())
			}
			next := fresh()
			got := allocated(t, func() error { return next.Restore(&file) })
			if table := next.Stats().Memory; got > 2*table+most { // a directory doubles as it grows
				t.Errorf("Restore allocates %d bytes for a table of %d", got, table)
			}
		})
	}
}

// streamed has the methods of both Buckets and Windows.
type streamed interface {
	take(key string, n int) (left int)
	Snapshot(w io.Writer) error
	Restore(r io.Reader) error
	SetMemory(most int) int
	Stats() keyedtable.Stats
}

type windowed struct{ *keyedtable.Windows[string] }

func (w windowed) take(key string, n int) int { return w.Take(key, n, 0).Remaining }

// While a snapshot is written, to a disk that may not answer, quotas and the memory change
// as at any time. Each part of the snapshot says under which quota it was written.
func TestChangesDuringSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := 24 * time.Hour
		narrow, wide := gcra.Per(1, day, 4), gcra.Per(1, day, 1000)
		buckets := newBuckets(t, narrow)
		few, many := keyedtable.Window{Limit: 4, Period: day, Sliding: true}, keyedtable.Window{Limit: 1000, Period: 2 * day}
		windows := windowed{newLimiter(t, few, keyedtable.Config{})}
		for kind, row := range map[string]struct {
			old, next streamed
			change    func()
		}{
			"buckets": {buckets, newBuckets(t, wide), func() { buckets.SetQuota(wide) }},
			"windows": {windows, windowed{newLimiter(t, many, keyedtable.Config{})}, func() { windows.SetWindow(many) }},
		} {
			const keys = 30_000
			for i := range keys {
				row.old.take(fmt.Sprint(i), 3)
			}
			var file bytes.Buffer
			disk := writer(func(p []byte) (int, error) {
				if file.Len() > 300_000 && row.change != nil {
					row.change()
					row.old.SetMemory(4 << 20)
					row.change = nil
				}
				return file.Write(p)
			})
			if err := row.old.Snapshot(disk); err != nil {
				t.Fatal(kind, err)
			}
			if row.change != nil || row.old.Stats().Forgotten > 0 {
				t.Fatalf("%s: %d bytes, %+v: the table has another size than this test needs", kind, file.Len(), row.old.Stats())
			}
			if err := row.next.Restore(&file); err != nil {
				t.Fatal(kind, err)
			}
			for i := range keys {
				key := fmt.Sprint(i)
				if got, want := row.next.take(key, 0), row.old.take(key, 0); got != want {
					t.Fatalf("%s: key %s has %d left: want %d", kind, key, got, want)
				}
			}
		}
	})
}
