//go:build !race

package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/snapshot"
	"github.com/weir-go/weir/service/internal/server/snapshot/state"
)

// allocated returns the bytes that f allocates, freed ones included.
func allocated(t *testing.T, f func() error) int {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := f()
	runtime.ReadMemStats(&after)
	must(t, err)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// The state is written and read in streams, also that of missing rules: beside the tables
// of the rules, it takes the same memory for any number of keys.
func TestStateStreams(t *testing.T) {
	const keys, leases, most = 60_000, 300, 1 << 20
	tried, fixed := one("tried", quota(5, 24*time.Hour, config.GCRA)), one("fixed", quota(5, 24*time.Hour, config.Fixed))
	tried.Candidate = ptr(quota(4, 24*time.Hour, config.GCRA))
	rules := func() server.Config { return underAll(tried, fixed, leased("jobs", config.Concurrency{Limit: 3})) }
	others := server.Config{Rules: &config.Rules{Rules: []config.Rule{one("other", quota(1, time.Hour, config.GCRA))}}}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	path := filepath.Join(dir, "state")
	d := newDesk(t, rules())
	for i := range keys {
		d.ask(fmt.Sprint("k", i), 3)
	}
	for i := range leases {
		d.lease(fmt.Sprint("k", i), 1)
	}
	save := func() int { return allocated(t, func() error { return d.SaveFile(path, true) }) }
	var done snapshot.Restored
	load := func() int {
		got := allocated(t, func() (err error) { done, err = d.LoadFile(path); return err })
		check(t, "leases", done.Leases, leases)
		return got - leases<<12 // these are held
	}
	bounded := func(what string, got int) {
		t.Helper()
		if got > most {
			t.Errorf("%s allocates %d bytes: want at most %d", what, got, most)
		}
	}
	bounded("a save", save())
	info, err := os.Stat(path)
	must(t, err)
	if info.Size() < 3*most {
		t.Fatalf("%d bytes: too few for this test", info.Size())
	}
	d = newDesk(t, others)
	bounded("a load with rules missing", load())
	check(t, "missing", len(done.Skipped), 3)
	for range 2 {
		bounded("a save with rules missing", save())
		checkOneOpen(t, path) // no file of before takes space on the disk
	}
	d = newDesk(t, rules())
	got := load()
	for _, r := range d.Stats().Rules {
		got -= 2 * r.Memory // the directories of tables double as they grow
	}
	bounded("a load", got)
	check(t, "rules", done.Rules, 2)
	for i := range keys {
		if v := d.ask(fmt.Sprint("k", i), 3); v.OK {
			t.Fatalf("k%d: %+v", i, v)
		}
	}
}

// checkOneOpen checks that of the files of a directory only that at path is open, once.
func checkOneOpen(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	all, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	var open []string
	for _, fd := range all {
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, filepath.Dir(path)) {
			open = append(open, name)
		}
	}
	if !slices.Equal(open, []string{path}) {
		t.Errorf("open files: %q, want only %s", open, path)
	}
}

// A disk that fails after the snapshot was found valid is an error: the counts and leases
// are there, and must not be lost.
func TestRestoreFailingDisk(t *testing.T) {
	last := newDesk(t, underAll(keptRules()...))
	for i := range 100 {
		last.ask(fmt.Sprint("k", i), 1)
		last.lease(fmt.Sprint("k", i), 1)
	}
	kept := last.snapshot()
	reads := 0
	disk := failingDisk{source: source{bytes.NewReader(kept)}, reads: &reads, left: math.MaxInt}
	_, err := newDesk(t, underAll(keptRules()...)).Restore(disk)
	must(t, err)
	for disk.left = range reads {
		reads = 0
		done, err := newDesk(t, underAll(keptRules()...)).Restore(disk)
		if !errors.As(err, new(*fs.PathError)) || errors.Is(err, state.ErrInvalid) {
			t.Errorf("read %d fails: %+v, %v", disk.left, done, err)
		}
	}
}

type failingDisk struct {
	source
	reads *int
	left  int
}

func (d failingDisk) ReadAt(p []byte, at int64) (int, error) {
	if *d.reads++; *d.reads > d.left {
		return 0, &fs.PathError{Op: "read", Path: "state", Err: errors.New("input/output error")}
	}
	return d.source.ReadAt(p, at)
}

// Rules change while a snapshot is written, to a disk that may not answer. What was used
// before is in it.
func TestReloadDuringSnapshot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		narrow, wide := one("a", quota(3, 24*time.Hour, config.Sliding)), one("a", quota(9, 24*time.Hour, config.Sliding))
		d := newDesk(t, server.Config{}, narrow)
		for i := range 30_000 {
			d.ask(fmt.Sprint("k", i), 3)
		}
		var kept bytes.Buffer
		writes := 0
		must(t, d.Snapshot(disk(func(p []byte) (int, error) {
			if writes++; writes == 5 {
				must(t, d.Reload(&config.Rules{Rules: []config.Rule{wide, one("b", quota(1, time.Hour, config.GCRA))}}))
			}
			return kept.Write(p)
		}), false))
		if writes < 10 {
			t.Fatalf("%d writes: too few for this test", writes)
		}
		next, _ := d.next(server.Config{Rules: d.Rules()}, kept.Bytes())
		for i := range 30_000 {
			key := fmt.Sprint("k", i)
			if v := next.ask(key, 7); v.OK {
				t.Fatalf("%s: %+v, after it had used 3 of 9", key, v)
			}
		}
		next.allows("k0", 6, 7)
	})
}

type disk func(p []byte) (int, error)

func (d disk) Write(p []byte) (int, error) { return d(p) }
