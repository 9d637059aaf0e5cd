// Package statefile keeps the counts and leases of a server in a file: it restores those of the last run,
// saves them while the server runs, and knows whether the last run has ended or was killed.
package statefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/snapshot/state"
)

var errLocked = errors.New("another process uses it: each instance needs a file of its own")

// A File is the state file of a server. If nil, there is none, and its methods do nothing. It is safe for
// concurrent use.
type File struct {
	path   string
	server *server.Server
	log    *slog.Logger

	soon    chan struct{} // of capacity 1: see SaveSoon
	running sync.Mutex    // held while the state is written; guards ended
	ended   bool          // the last save is written: no other may replace it

	mu      sync.Mutex // guards the fields below
	stats   Stats
	failing bool // the last save has failed
}

// Stats are about the saves so far.
type Stats struct {
	Last     time.Time // of the last success
	Bytes    int64
	Took     time.Duration
	Failures uint64
}

// New returns the state file at a path, or nil if path is empty.
func New(path string, s *server.Server, log *slog.Logger) *File {
	if path == "" {
		return nil
	}
	return &File{path: path, server: s, log: log, soon: make(chan struct{}, 1)}
}

// Restore locks the file and loads the state of the last run, if there is one. It writes nothing to the file until it
// is marked as in use: from then on the next start knows whether this run has ended or was killed. Call it when the
// listeners are open, so that a start that fails changes nothing.
//
// A file that is damaged, or has another version, is kept under another name: serving with fresh counts is better than
// not serving.
func (f *File) Restore() (unlock func(), err error) {
	if f == nil {
		return func() {}, nil
	}
	f.path = followLinks(f.path)
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--state: %s: not a regular file", f.path)
	}
	unlock, err = lock(f.path + ".lock")
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("--state: %s: %w", f.path, err)
	} else if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if err := f.load(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// load loads the state and marks it as in use.
func (f *File) load() error {
	done, err := f.server.LoadFile(f.path)
	switch {
	case err == nil:
		f.log.Info("counts restored", "state", f.path, "rules", done.Rules, "leases", done.Leases, "skipped", len(done.Skipped))
		for _, what := range done.Skipped[:min(len(done.Skipped), maxSkipped)] {
			f.log.Warn("not restored, but kept for a day", "what", what)
		}
		if done.Crashed {
			f.log.Warn("the last run has not ended cleanly, or was recovering from one that had not: new leases wait until its leases must have expired",
				"longest", f.server.Recovers().Round(time.Second))
		}
		if err := state.MarkRunning(f.path); err != nil {
			return fmt.Errorf("--state: %w", err)
		}
		if err := f.Save(false); err != nil { // the file as it is will do
			f.log.Error("the state was not saved", "error", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		f.server.First()
		return f.Save(false)
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("--state: %w", err)
	}
	what, kept := "is damaged", f.path+".damaged"
	if other, ok := errors.AsType[*state.VersionError](err); ok {
		what, kept = "was written by another version of weir, which can continue with it under its name", f.path+".version"+other.Version
	}
	f.server.Recover()
	f.log.Error("the state file "+what+": counts start at zero, and new leases wait until the leases of the last run must have expired",
		"error", err, "kept_as", kept, "longest", f.server.Recovers().Round(time.Second))
	// The file stays until a save replaces it: without a file, the next start would not
	// know of leases.
	_ = os.Remove(kept)
	if err := os.Link(f.path, kept); err != nil {
		f.log.Warn("the state file is not kept", "error", err)
	}
	return f.Save(false)
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

// SaveEvery saves the state at an interval, or less often if saving takes long, until ctx ends.
func (f *File) SaveEvery(ctx context.Context, interval time.Duration) {
	if f == nil {
		return
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-f.soon:
		}
		start := time.Now()
		if err := f.Save(false); err != nil {
			f.log.Error("the state was not saved", "error", err)
		}
		timer.Reset(max(interval, saveShare*time.Since(start)))
	}
}

// SaveSoon has SaveEvery save the state without delay. It does not wait for that: a disk that does not answer must
// not delay a reload.
func (f *File) SaveSoon() {
	if f == nil {
		return
	}
	select {
	case f.soon <- struct{}{}:
	default:
	}
}

// Save writes the state for the next run; ended says that nothing changes after it. Calls at the same time write one
// after the other.
func (f *File) Save(ended bool) error {
	if f == nil {
		return nil
	}
	f.running.Lock()
	defer f.running.Unlock()
	if f.ended {
		return nil
	}
	f.ended = ended
	start := time.Now()
	err := f.server.SaveFile(f.path, ended)
	var size int64
	if info, failed := os.Stat(f.path); failed == nil {
		size = info.Size()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	wasFailing := f.failing
	if f.failing = err != nil; err != nil {
		f.stats.Failures++
		return fmt.Errorf("--state: %w", err)
	}
	if wasFailing {
		f.log.Info("the state is saved again", "state", f.path)
	}
	f.stats.Last, f.stats.Took, f.stats.Bytes = time.Now(), time.Since(start), size
	return nil
}

// Stats returns what is known of the saves so far.
func (f *File) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}
