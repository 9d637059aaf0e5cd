package rulefile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/service/internal/inputfile"
)

// statInterval is how often a Watcher compares the sizes and times of files. A change
// is reported when the next comparison finds no further one: writers write in steps.
const statInterval = 200 * time.Millisecond

// A Watcher reports changes in the content of files, whether they were written,
// replaced, or reached through a symbolic link that has changed, as Kubernetes does.
type Watcher struct {
	paths    []string
	interval time.Duration
	sum      [sha256.Size]byte // of the content at the last check
}

// NewWatcher records the present content of files, and of directories of files. If it
// is called before they are read, no change is missed. Besides their sizes and times,
// the Watcher compares their content at an interval > 0.
func NewWatcher(paths []string, interval time.Duration) *Watcher {
	return &Watcher{paths, interval, digest(paths, addContent)}
}

// Run calls changed, one call at a time, whenever the content differs from that at
// the last call, until ctx ends. The removal of a file is a change.
func (w *Watcher) Run(ctx context.Context, changed func()) {
	stat, poll := time.NewTicker(statInterval), time.NewTicker(w.interval)
	defer stat.Stop()
	defer poll.Stop()
	var last, checked [sha256.Size]byte // digests of sizes and times
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-stat.C:
			before := last
			if last = digest(w.paths, addStat); last == checked || last != before {
				continue
			}
			checked = last
		}
		if w.contentChanged() {
			changed()
		}
	}
}

// contentChanged reports whether the content has changed since the last call.
func (w *Watcher) contentChanged() bool {
	was := w.sum
	w.sum = digest(w.paths, addContent)
	return w.sum != was
}

// digest hashes what add writes about each file, and the names of files in
// directories.
func digest(paths []string, add func(h hash.Hash, path string)) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, path := range paths {
		add(h, path)
		entries, _ := os.ReadDir(path) // none, if path is a file
		for _, entry := range entries {
			if isRules(entry.Name()) {
				fmt.Fprintf(h, "%q", entry.Name())
				add(h, filepath.Join(path, entry.Name()))
			}
		}
	}
	h.Sum(sum[:0])
	return sum
}

// addStat adds the size and the time of a file.
func addStat(h hash.Hash, path string) {
	info, err := os.Stat(path)
	if err != nil {
		fmt.Fprint(h, err)
		return
	}
	fmt.Fprint(h, info.Size(), info.ModTime().UnixNano())
}

// addContent adds the content of a file. It skips directories, because their entries are added
// separately, and pipes, which must not be read twice.
func addContent(h hash.Hash, path string) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		fmt.Fprint(h, err)
		return
	}
	file, err := inputfile.Open(path)
	if err != nil {
		fmt.Fprint(h, err)
		return
	}
	defer file.Close()
	n, err := io.Copy(h, file)
	fmt.Fprint(h, n, err)
}
