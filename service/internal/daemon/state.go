package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/server/state"
)

var errLocked = errors.New("another process uses it: each instance needs a file of its own")

// restore locks the state file and loads the state of the last run, if there is one. It
// writes nothing to that file until it is marked as in use: from then on the next start
// knows whether this run has ended or was killed. The listeners are open by now, so that
// a start that fails changes nothing.
//
// A file that is damaged, or has another version, is kept under another name: serving with fresh
// counts is better than not serving.
func (d *Daemon) restore() (unlock func(), err error) {
	if d.cfg.State == "" {
		return func() {}, nil
	}
	d.cfg.State = followLinks(d.cfg.State)
	path := d.cfg.State
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--state: %s: not a regular file", path)
	}
	unlock, err = lock(path + ".lock")
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("--state: %s: %w", path, err)
	} else if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if err := d.load(path); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// load loads the state and marks it as in use.
func (d *Daemon) load(path string) error {
	done, err := d.server.LoadFile(path)
	switch {
	case err == nil:
		d.log.Info("counts restored", "state", path, "rules", done.Rules, "leases", done.Leases, "skipped", len(done.Skipped))
		for _, what := range done.Skipped[:min(len(done.Skipped), maxSkipped)] {
			d.log.Warn("not restored, but kept for a day", "what", what)
		}
		if done.Crashed {
			d.log.Warn("the last run has not ended cleanly, or was recovering from one that had not: new leases wait until its leases must have expired",
				"longest", d.server.Recovers().Round(time.Second))
		}
		if err := state.MarkRunning(path); err != nil {
			return fmt.Errorf("--state: %w", err)
		}
		if err := d.save(false); err != nil { // the file as it is will do
			d.log.Error("the state was not saved", "error", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		d.server.First()
		return d.save(false)
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("--state: %w", err)
	}
	what, kept := "is damaged", path+".damaged"
	if other, ok := errors.AsType[*state.VersionError](err); ok {
		what, kept = "was written by another version of weir, which can continue with it under its name", path+".version"+other.Version
	}
	d.log.Error("the state file "+what+": counts start at zero, and new leases wait until the leases of the last run must have expired",
		"error", err, "kept_as", kept)
	// The file stays until a save replaces it: without a file, the next start would not
	// know of leases.
	_ = os.Remove(kept)
	if err := os.Link(path, kept); err != nil {
		d.log.Warn("the state file is not kept", "error", err)
	}
	d.server.Recover()
	return d.save(false)
}

// followLinks returns the path that symbolic links lead to, so that saving replaces
// the file and not the link. There may be no such file yet.
func followLinks(path string) string {
	for range 40 { // as many as Linux follows
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		path = to
	}
	return path
}

// maxSkipped bounds the log lines about parts of the state that were not restored.
const maxSkipped = 10

// saveShare bounds the share of time that is spent on saving the state, as 1/saveShare.
const saveShare = 100

// saveEvery saves the state at an interval, or less often if saving takes long, until ctx
// ends.
func (d *Daemon) saveEvery(ctx context.Context, interval time.Duration) {
	if d.cfg.State == "" {
		return
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.saves.soon:
		}
		start := time.Now()
		if err := d.save(false); err != nil {
			d.log.Error("the state was not saved", "error", err)
		}
		timer.Reset(max(interval, saveShare*time.Since(start)))
	}
}

// saveSoon has the state saved without delay. It does not wait for that: a disk that does
// not answer must not delay a reload.
func (d *Daemon) saveSoon() {
	select {
	case d.saves.soon <- struct{}{}:
	default:
	}
}

// saves is the outcome of the saves so far.
type saves struct {
	soon    chan struct{} // of capacity 1: see saveSoon
	running sync.Mutex    // held while the state is written; guards ended
	ended   bool          // the last save is written: no other may replace it

	mu       sync.Mutex // guards the fields below
	last     time.Time  // of the last success
	bytes    int64
	took     time.Duration
	failing  bool // the last save has failed
	failures uint64
}

// save writes the state for the next run, if there is a file for it; ended says that
// nothing changes after it. Calls at the same time write one after the other.
func (d *Daemon) save(ended bool) error {
	if d.cfg.State == "" {
		return nil
	}
	s := &d.saves
	s.running.Lock()
	defer s.running.Unlock()
	if s.ended {
		return nil
	}
	s.ended = ended
	start := time.Now()
	err := d.server.SaveFile(d.cfg.State, ended)
	var size int64
	if info, failed := os.Stat(d.cfg.State); failed == nil {
		size = info.Size()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	wasFailing := s.failing
	if s.failing = err != nil; err != nil {
		s.failures++
		return fmt.Errorf("--state: %w", err)
	}
	if wasFailing {
		d.log.Info("the state is saved again", "state", d.cfg.State)
	}
	s.last, s.took, s.bytes = time.Now(), time.Since(start), size
	return nil
}
