package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// restore loads the state of the last run, if there is one. A damaged file is
// renamed: serving with fresh counts is better than not serving.
func (d *Daemon) restore() error {
	if d.cfg.State == "" {
		return nil
	}
	d.cfg.State = followLinks(d.cfg.State)
	path := d.cfg.State
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("--state: %s: not a regular file", path)
	}
	done, err := d.server.LoadFile(path)
	switch {
	case err == nil:
		d.log.Info("counts restored", "state", path, "rules", done.Rules, "leases", done.Leases, "ended", done.Ended, "skipped", len(done.Skipped))
		for _, what := range done.Skipped[:min(len(done.Skipped), maxSkipped)] {
			d.log.Warn("not restored", "what", what)
		}
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("--state: %w", err)
	default:
		d.log.Error("the state file is damaged: counts start at zero", "error", err, "kept_as", path+".damaged")
		if err := os.Rename(path, path+".damaged"); err != nil {
			return fmt.Errorf("--state: %w", err)
		}
	}
	return d.save() // reports now if the file cannot be written
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

// saveEvery saves the state at an interval, until ctx ends.
func (d *Daemon) saveEvery(ctx context.Context, interval time.Duration) {
	if d.cfg.State == "" {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.save(); err != nil {
				d.log.Error("the state was not saved", "error", err)
			}
		}
	}
}

// save writes the state for the next run, if there is a file for it. Calls at the
// same time write one after the other.
func (d *Daemon) save() error {
	if d.cfg.State == "" {
		return nil
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	if err := d.server.SaveFile(d.cfg.State); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}
