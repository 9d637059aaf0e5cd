package decisionlog

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Ext is the end of the names of files.
const Ext = ".weirdec"

// Config configures a Directory. Path and MaxBytes are required.
type Config struct {
	Path     string
	MaxBytes int64 // of all files; the oldest are removed
	Salt     Salt
	Info     Info // without SaltID and Salt
	// SaltApart leaves the salt out of the files.
	SaltApart bool
	// OnError, if not nil, is called when decisions cannot be written, and with nil when they can again.
	OnError func(error)

	create func(path string) (io.WriteCloser, error) // if nil, os.OpenFile
}

const (
	drainEvery = 100 * time.Millisecond
	retryEvery = time.Second // to write a file after an error
	fileShare  = 8           // a file has this part of MaxBytes
)

// A Directory has the files of a Recorder. No two instances may have the same one.
type Directory struct {
	cfg   Config
	rec   *Recorder
	file  io.WriteCloser // nil after an error
	w     *Writer
	retry time.Time
	bad   bool // OnError has been called with an error

	size     atomic.Int64 // of all files
	failures atomic.Uint64
}

// Open makes the directory if there is none, and the first file.
func Open(cfg Config, rec *Recorder) (*Directory, error) {
	if cfg.create == nil {
		cfg.create = func(path string) (io.WriteCloser, error) {
			return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
	}
	cfg.Info.SaltID = cfg.Salt.ID()
	if cfg.Info.Salt = nil; !cfg.SaltApart {
		cfg.Info.Salt = cfg.Salt.secret
	}
	d := &Directory{cfg: cfg, rec: rec}
	return d, d.next()
}

// Bytes returns the size of all files.
func (d *Directory) Bytes() int64 { return d.size.Load() }

// Failures returns how often decisions could not be written.
func (d *Directory) Failures() uint64 { return d.failures.Load() }

// Run writes decisions until ctx ends, and then the rest.
func (d *Directory) Run(ctx context.Context) {
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.drain()
		case <-ctx.Done():
			d.retry = time.Time{}
			d.drain()
			_ = d.end()
			return
		}
	}
}

// drain writes decisions, to another file if the present one is full. After an error it starts another file, later.
func (d *Directory) drain() {
	if d.file != nil && d.w.Size() >= d.cfg.MaxBytes/fileShare {
		d.report(d.end())
	}
	if d.file == nil {
		if time.Now().Before(d.retry) {
			return
		}
		if err := d.next(); err != nil {
			d.report(err)
			return
		}
	}
	before := d.w.Size()
	err := d.rec.Drain(d.w)
	d.size.Add(d.w.Size() - before)
	if err != nil {
		_ = d.end()
		d.report(err)
		return
	}
	if d.bad {
		d.bad = false
		d.say(nil)
	}
}

// next removes old files, and starts a file.
func (d *Directory) next() error {
	if err := os.MkdirAll(d.cfg.Path, 0o700); err != nil {
		return err
	}
	if err := d.clean(); err != nil {
		return err
	}
	path := filepath.Join(d.cfg.Path, "decisions-"+time.Now().UTC().Format("20060102T150405.000000000Z")+Ext)
	file, err := d.cfg.create(path)
	if err != nil {
		return err
	}
	d.file, d.w = file, NewWriter(file, d.rec.Epoch(), d.cfg.Info, d.cfg.Salt)
	d.size.Add(d.w.Size())
	if err := d.w.Flush(); err != nil {
		_ = d.end()
		_ = os.Remove(path)
		return err
	}
	return nil
}

// end ends the present file.
func (d *Directory) end() error {
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	d.file = nil
	return err
}

func (d *Directory) report(err error) {
	if err == nil {
		return
	}
	d.failures.Add(1)
	d.retry = time.Now().Add(retryEvery)
	if !d.bad {
		d.bad = true
		d.say(err)
	}
}

func (d *Directory) say(err error) {
	if d.cfg.OnError != nil {
		d.cfg.OnError(err)
	}
}

// clean removes the oldest files, so that there is room for another one.
func (d *Directory) clean() error {
	files, err := Files(d.cfg.Path)
	if err != nil {
		return err
	}
	sizes, total := make([]int64, len(files)), int64(0)
	for i, path := range files {
		info, err := os.Stat(path)
		switch {
		case err == nil:
			sizes[i] = info.Size()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		total += sizes[i]
	}
	for i := 0; i < len(files) && total > d.cfg.MaxBytes-d.cfg.MaxBytes/fileShare; i++ {
		if err := os.Remove(files[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= sizes[i]
	}
	d.size.Store(total)
	return nil
}

// Files returns the files of a directory, the oldest first, or a file itself.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), Ext) && e.Type().IsRegular() {
			all = append(all, filepath.Join(path, e.Name()))
		}
	}
	slices.SortFunc(all, cmp.Compare[string])
	return all, nil
}
