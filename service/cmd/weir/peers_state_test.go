//go:build system

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
)

// startAll starts all members, and waits until they know each other.
func (f *peerFleet) startAll(t *testing.T) {
	t.Helper()
	for i := range fleetSize {
		f.start(i)
	}
	f.untilStatuses("live live live", 0, 1, 2)
	time.Sleep(time.Second) // the state of keys moves
}

// untilSaved waits until a save of a state that begins after now has ended. A save that has begun already may end first.
func untilSaved(t *testing.T, path string) {
	t.Helper()
	last := time.Now()
	for range 2 {
		redistest.Until(t, "a save of the state", func() error {
			info, err := os.Stat(path)
			if err == nil && !info.ModTime().After(last) {
				err = fmt.Errorf("%s: the last save was at %v", path, info.ModTime())
			}
			if err == nil {
				last = info.ModTime()
			}
			return err
		})
	}
}

// With state files, counts outlive the end of all members, in turn or at once.
func TestPeersState(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules), "--state-interval", "1s")
	for i := range fleetSize {
		f.own[i] = []string{"--state", filepath.Join(t.TempDir(), "state")}
	}
	f.startAll(t)
	keys := []string{f.ownedBy(0, "once:a"), f.ownedBy(1, "once:b"), f.ownedBy(2, "once:c")}
	takeAll := func() (given int) {
		for i := range 40 {
			for _, key := range keys {
				if f.take(i%fleetSize, "/rate/"+key).ok {
					given++
				}
			}
		}
		return given
	}
	if given := takeAll(); given != 3*30 {
		t.Errorf("%d tokens of 3 keys, want 90", given)
	}
	for i := range fleetSize {
		f.processes[i].end()
	}
	f.startAll(t)
	if given := takeAll(); given != 0 {
		t.Errorf("%d tokens after all have ended in turn, want none", given)
	}
	for i := range fleetSize {
		untilSaved(t, f.own[i][1])
	}
	for i := range fleetSize {
		f.processes[i].kill()
	}
	f.startAll(t)
	if given := takeAll(); given != 0 {
		t.Errorf("%d tokens after all have crashed, want none", given)
	}
	f.processes[1].kill()
	f.untilStatuses("live dead live", 0, 2)
	f.start(1)
	f.untilStatuses("live live live", 0, 1, 2)
	time.Sleep(time.Second)
	if given := takeAll(); given != 0 {
		t.Errorf("%d tokens after one has crashed and is back, want none", given)
	}
}
