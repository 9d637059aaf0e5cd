package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// DefaultWatchInterval is WatchConfig.Interval where it is zero.
const DefaultWatchInterval = 10 * time.Second

// Writers write in steps: a change is reported when there was none for quiet, or at
// most patience after the first.
const (
	quiet    = 50 * time.Millisecond
	patience = time.Second
)

// WatchConfig configures a Watcher.
type WatchConfig struct {
	// Paths are files, and directories of files.
	Paths []string
	// Interval is how often they are read to see whether they have changed, besides
	// whenever the operating system says so: it does not on network file systems. If
	// zero, DefaultWatchInterval.
	Interval time.Duration
	// Log gets a warning if the operating system cannot watch files. It may be nil.
	Log *slog.Logger
}

// A Watcher reports changes in the content of files, whether they were written,
// replaced, or reached through a symbolic link that has changed, as Kubernetes does.
type Watcher struct {
	cfg      WatchConfig
	sum      [sha256.Size]byte // of what they held at the last check
	notifier *fsnotify.Watcher // nil if the operating system reports no changes
}

// NewWatcher records the present content of the files. If it is called before they
// are read, no change is missed.
func NewWatcher(cfg WatchConfig) *Watcher {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultWatchInterval
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg, sum: content(cfg.Paths)}
}

// Run calls changed, one call at a time, whenever the content differs from that at
// the last call, until ctx ends. The removal of a file is a change.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	var events chan fsnotify.Event
	var failures chan error
	var err error
	if w.notifier, err = fsnotify.NewWatcher(); err == nil {
		defer w.notifier.Close()
		events, failures = w.notifier.Events, w.notifier.Errors
		w.follow()
	} else {
		w.cfg.Log.Warn("changes of files are seen later", "interval", w.cfg.Interval, "error", err)
	}
	poll := time.NewTicker(w.cfg.Interval)
	defer poll.Stop()
	still := time.NewTimer(0) // what has changed before the first watch was set
	defer still.Stop()
	var first time.Time // sign of a change that has not counted yet
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			if first.IsZero() {
				first = time.Now()
			}
			still.Reset(min(quiet, max(time.Until(first.Add(patience)), 0)))
			continue
		case err := <-failures: // such as that events were lost
			w.cfg.Log.Debug("watching files", "error", err)
		case <-still.C:
		case <-poll.C:
		}
		first = time.Time{}
		w.follow()
		if w.contentChanged() {
			changed()
		}
	}
}

// contentChanged reports whether the content has changed since the last call.
func (w *Watcher) contentChanged() bool {
	was := w.sum
	w.sum = content(w.cfg.Paths)
	return w.sum != was
}

// follow watches the directories on the present paths to the files. Polling covers
// a directory that cannot be watched.
func (w *Watcher) follow() {
	if w.notifier == nil {
		return
	}
	var dirs []string
	for _, path := range w.cfg.Paths {
		dirs = trail(dirs, path)
		if is, err := os.Stat(path); err == nil && is.IsDir() {
			dirs = trail(dirs, filepath.Join(path, "any"))
		}
		for _, name := range entries(path) {
			dirs = trail(dirs, name)
		}
	}
	for _, dir := range w.notifier.WatchList() {
		if !slices.Contains(dirs, dir) {
			_ = w.notifier.Remove(dir)
		}
	}
	for _, dir := range dirs {
		_ = w.notifier.Add(dir)
	}
}

// maxLinks bounds the symbolic links on the way to one file.
const maxLinks = 40

// trail appends all directories that a path depends on: its own, and that of each
// symbolic link on it.
func trail(dirs []string, path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return dirs
	}
	for range maxLinks {
		link, rest, ok := firstLink(path)
		if !ok {
			break
		}
		dirs = append(dirs, filepath.Dir(link))
		target, err := os.Readlink(link)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, rest)
	}
	return append(dirs, filepath.Dir(path))
}

// firstLink cuts a path after its first component that is a symbolic link.
func firstLink(path string) (link, rest string, ok bool) {
	for at := len(filepath.VolumeName(path)) + 1; at < len(path); at++ {
		end := len(path)
		if i := strings.IndexRune(path[at:], filepath.Separator); i >= 0 {
			end = at + i
		}
		info, err := os.Lstat(path[:end])
		if err != nil {
			return "", "", false
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return path[:end], path[end:], true
		}
		at = end
	}
	return "", "", false
}

// entries returns the paths in a directory, in order, with hidden files: these may
// be read through another name.
func entries(path string) (paths []string) {
	names, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	for _, e := range names {
		paths = append(paths, filepath.Join(path, e.Name()))
	}
	return paths
}

// content returns a hash of the content of files, of their names in directories, and
// of which of them cannot be read.
func content(paths []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, path := range paths {
		add(h, path)
		for _, name := range entries(path) {
			if isRules(name) {
				fmt.Fprintf(h, "%q", name)
				add(h, name)
			}
		}
	}
	h.Sum(sum[:0])
	return sum
}

// isRules reports whether Load reads a file of a directory.
func isRules(name string) bool {
	return filepath.Base(name)[0] != '.' && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// add adds the content of a file. It skips directories, whose entries are added
// separately, and pipes, which must not be read twice.
func add(h hash.Hash, path string) {
	is, err := os.Stat(path)
	if err != nil || !is.Mode().IsRegular() {
		fmt.Fprintf(h, "%v", err)
		return
	}
	f, err := os.Open(path)
	if err != nil {
		fmt.Fprintf(h, "%v", err)
		return
	}
	defer f.Close()
	n, err := io.Copy(h, f)
	fmt.Fprintf(h, "%d %v", n, err)
}
