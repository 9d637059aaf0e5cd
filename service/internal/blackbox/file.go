package blackbox

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-go/weir/recording"
)

// Files end with suffix, and with unfinished while they are written. Their names sort by time.
const (
	suffix     = ".rec"
	unfinished = ".part"
	stamp      = "20060102T150405.000Z"
)

// name returns the name of the recording of a change at an instant.
func name(change string, at time.Time) string { return at.UTC().Format(stamp) + "-" + change + suffix }

// named reports whether name has returned a name.
func named(text string) bool {
	at, _, _ := strings.Cut(text, "-")
	_, err := time.Parse(stamp, at)
	return err == nil && strings.HasSuffix(text, suffix)
}

// untouched is the age at which an unfinished file belongs to a process that was killed.
const untouched = 10 * pace

// prepare creates the directory.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "check-*"+unfinished)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// tidy finishes what a process that was killed has left, and deletes the oldest files until there is room
// for another one.
func (b *Box) tidy() error {
	dir, err := os.ReadDir(b.cfg.Dir) // sorted
	if err != nil {
		return err
	}
	type file struct {
		path string
		size int64
	}
	var files []file
	total := b.cfg.Size / share // of the file to come
	for _, e := range dir {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		path := filepath.Join(b.cfg.Dir, e.Name())
		whole, left := strings.CutSuffix(path, unfinished)
		if !named(filepath.Base(whole)) {
			continue
		}
		if left && time.Since(info.ModTime()).Abs() > untouched { // the clock may have been set back
			if err := os.Rename(path, whole); err != nil {
				return err
			}
			path = whole
		}
		files = append(files, file{path, info.Size()})
		total += info.Size()
	}
	for len(files) > 0 && (total > b.cfg.Size || len(files) >= maxFiles) {
		if err := os.Remove(files[0].path); err != nil {
			return err
		}
		total -= files[0].size
		files = files[1:]
	}
	return nil
}

// A file is a recording that is being written.
type file struct {
	*os.File
	path  string // when it is finished
	since time.Duration
	tail  *recording.Tail
	to    *recording.Writer
	size  int64
	begun bool // copy has succeeded
}

// create creates the file of a change, for the records since an instant.
func (b *Box) create(change string, since time.Duration) (*file, error) {
	if err := b.tidy(); err != nil {
		return nil, err
	}
	f := &file{path: filepath.Join(b.cfg.Dir, name(change, time.Now())), since: since, tail: b.recorder.Tail()}
	var err error
	if f.File, err = os.OpenFile(f.path+unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	f.to = recording.NewWriter(f, b.recorder.Epoch())
	return f, nil
}

// Write counts what is written.
func (f *file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.size += int64(n)
	return n, err
}

// copy writes the records that have come.
func (f *file) copy() error {
	err := f.tail.Copy(f.to, f.since)
	f.begun = f.begun || err == nil
	return err
}

// close finishes the file, or removes it if nothing could be written. What was written before an error is kept.
func (f *file) close(err error) error {
	err = errors.Join(cmp.Or(err, f.Sync()), f.File.Close())
	if !f.begun {
		return errors.Join(err, os.Remove(f.path+unfinished))
	}
	return errors.Join(err, os.Rename(f.path+unfinished, f.path))
}
