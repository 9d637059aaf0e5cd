package server

import (
	"context"
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A lessee waits for a lease.
type lessee struct {
	end   context.CancelCauseFunc
	holds bool // units of other rules
}

// patient is a context whose deadline package inflight does not see: it would
// take it for that of the work, and refuse whose work takes longer than its wait
// may.
type patient struct{ context.Context }

func (patient) Deadline() (time.Time, bool) { return time.Time{}, false }

// wait stands in line for a lease. Whoever dismisses it cancels a context that is
// its own, and says why: with errMoved, or with a rejection.
func (g *gates) wait(ctx context.Context, d *door, l *lease) (weir.Permit, error) {
	own, end := context.WithCancelCause(ctx)
	defer end(nil)
	w := &lessee{end, len(l.held) > 0}
	if err := g.stand(ctx, w, d, l.n); err != nil {
		return weir.Permit{}, err
	}
	start := time.Now()
	p, err := d.limiter.Acquire(patient{own}, l.n)
	g.withdraw(w, d, l.n) // before it counts among those ahead of its next attempt
	if err == nil {
		g.waits.add(time.Since(start))
		return p, nil
	}
	if rejected, ok := err.(*weir.Rejection); ok {
		return p, g.refuse(rejected.Reason, d.retry(l.n))
	}
	if err := ctx.Err(); err != nil {
		g.left.Add(1)
		return p, err
	}
	err = context.Cause(own)
	if rejected, ok := err.(*weir.Rejection); ok {
		g.refused[rejected.Reason].Add(1)
	}
	return p, err
}

// stand notes that somebody waits, or says why not.
func (g *gates) stand(ctx context.Context, w *lessee, d *door, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	deadline, ok := ctx.Deadline()
	switch {
	case g.over:
		return errMoved
	case g.server.closed.Load(): // before Close looks who waits, or after
		return g.refuse(weir.Closed, drainRetry)
	case ok && d.etaLocked(d.queued) > time.Until(deadline):
		return g.refuse(weir.TooLate, d.etaLocked(d.queued+n))
	case g.server.waiting.Add(1) > int64(max(g.server.cfg.MaxWaiting, 0)):
		g.server.waiting.Add(-1)
		return g.refuse(weir.QueueFull, d.etaLocked(d.queued+n))
	}
	g.waiting.Add(1)
	g.waiters[w] = struct{}{}
	d.queued += n
	return nil
}

// withdraw is the end of a stand.
func (g *gates) withdraw(w *lessee, d *door, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiters, w)
	d.queued -= n
	g.waiting.Add(-1)
	g.server.waiting.Add(-1)
}

// retry returns when it may make sense for n units to ask again.
func (d *door) retry(n int) time.Duration {
	d.gates.mu.Lock()
	defer d.gates.mu.Unlock()
	if n > most(d.gates.terms) {
		return weir.Never
	}
	return d.etaLocked(d.queued + n)
}

// etaLocked returns how long it takes until so many units have come back, by
// Little's law; 0 if it is not known.
func (d *door) etaLocked(units int) time.Duration {
	eta := float64(d.lasts) * float64(units) / float64(max(d.limiter.Stats().Limit, 1))
	return time.Duration(min(eta, math.MaxInt64/2))
}
