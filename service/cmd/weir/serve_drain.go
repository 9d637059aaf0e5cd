package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// A phase is whether the server wants requests.
type phase struct{ draining atomic.Bool }

// ready returns why not.
func (p *phase) ready() error {
	if p.draining.Load() {
		return errors.New("draining")
	}
	return nil
}

// drain lets those go who wait, and then everybody. While somebody has a turn to
// come, decisions are made as before, but nobody else may wait. Those whose turn
// does not come within the grace are refused; only what then still sends or
// takes is cut off, which is an error.
func (d *daemon) drain() error {
	start := time.Now()
	d.phase.draining.Store(true)
	refuse := d.cmd.Drain == "refuse"
	waiting := d.server.Waiting()
	d.server.Close(refuse)
	d.log.Info("draining", "how", d.cmd.Drain, "waiting", waiting, "grace", d.cmd.Grace)
	ctx, cancel := context.WithTimeout(context.Background(), d.cmd.Grace)
	defer cancel()
	if !refuse && !d.turns(ctx) {
		d.log.Warn("the grace is over: who still waits is refused", "waiting", d.server.Waiting())
		d.server.Close(true)
	}
	_ = d.conns.Close()
	d.conns.CloseUnused()
	// Who has been answered has a moment to take it.
	ctx, cancel = context.WithDeadline(context.Background(), start.Add(max(d.cmd.Grace, time.Since(start)+parting)))
	defer cancel()
	if err := d.public.Shutdown(ctx); err != nil {
		_ = d.public.Close()
		return fmt.Errorf("--grace=%v was too short: what was still in flight is cut off", d.cmd.Grace)
	}
	d.log.Info("drained", "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// parting is how long answers may take to be taken, at least.
const parting = 2 * time.Second

// turns waits until nobody waits any more, and reports whether that was within
// ctx.
func (d *daemon) turns(ctx context.Context) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for d.server.Waiting() > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// restore takes up the counts of the last run, if there are any. A file that is
// damaged is put aside: to serve with fresh counts is better than not to.
func (d *daemon) restore() error {
	path := d.cmd.State
	if path == "" {
		return nil
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
		d.log.Error("counts begin anew", "error", err, "kept_as", path+".damaged")
		if err := os.Rename(path, path+".damaged"); err != nil {
			return fmt.Errorf("--state: %w", err)
		}
	}
	return d.save() // whoever cannot write it should know now
}

// maxSkipped bounds the lines about what was not restored.
const maxSkipped = 10

// saveEvery keeps the counts again and again, until ctx ends.
func (d *daemon) saveEvery(ctx context.Context, interval time.Duration) {
	if d.cmd.State == "" {
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
				d.log.Error("not kept", "error", err)
			}
		}
	}
}

// save keeps the counts for the next run. Of two calls at once one waits.
func (d *daemon) save() error {
	if d.cmd.State == "" {
		return nil
	}
	d.saving.Lock()
	defer d.saving.Unlock()
	if err := d.server.SaveFile(d.cmd.State); err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}
