package ring

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/service/internal/ring/local"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// errAlone says that the owner of a slot cannot be asked.
var errAlone = errors.New("the owner of the key cannot be asked")

// poll is the time between two questions to an owner that is expected to change.
const poll = 20 * time.Millisecond

// A patience says for how long a request is held.
type patience struct {
	lost  time.Duration // when the owner has just been lost
	moved time.Duration // when the owner has given the key up
}

// The patience of requests that must be decided at once, and of others.
func (r *Ring) hasty() patience   { return patience{moved: r.cfg.Timeout} }
func (r *Ring) patient() patience { return patience{lost: r.cfg.Settle, moved: r.cfg.Settle} }

// ask calls f with the Decider of the owner of a slot, again if the owner changes. The error is
// errAlone if the owner cannot be asked. onHold, if not nil, is called before the request is held.
func (r *Ring) ask(ctx context.Context, at func() uint16, held patience, onHold func(), f func(context.Context, decider.Decider) error) error {
	var began time.Time
	for {
		w := r.view.Load()
		most, err := held.lost, errAlone
		t := w.route(at())
		switch {
		case t.here:
			err = f(ctx, r.cfg.Local)
		case t.place != nil:
			err = r.forward(ctx, t.place, held.lost == 0, f)
		case r.joins(w):
			err = decider.ErrMoved // perhaps to another one, which this node does not know yet
		case t.since < 0 || r.now()-t.since > r.cfg.Settle:
			return errAlone
		}
		switch {
		case err == nil || ctx.Err() != nil || !local.IsUndecided(err):
			return err
		case err == decider.ErrMoved:
			most = held.moved
		case t.place != nil && held.lost == 0: // the link is lost: the next view may have another owner
			if r.view.Load() == w && pause(ctx, w.over, poll) && r.view.Load() == w {
				return errAlone
			}
			most = r.cfg.Timeout
		}
		if began.IsZero() {
			began = time.Now()
		}
		left := most - time.Since(began)
		if left <= 0 {
			return errAlone
		}
		if onHold != nil {
			onHold()
			onHold = nil
		}
		if !pause(ctx, w.over, min(left, poll)) {
			return ctx.Err()
		}
	}
}

// joins reports whether this node has started just now, and does not know its fleet yet.
func (r *Ring) joins(w *view) bool { return !w.Quorum && !r.joined.Load() && r.now() < r.cfg.Settle }

// pause waits for a time, or until over is closed. It reports whether ctx has not ended.
func pause(ctx context.Context, over chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// forward calls f with the link to a member. A request that must be decided at once gets errAlone
// after Config.Timeout.
func (r *Ring) forward(ctx context.Context, p *place, hasty bool, f func(context.Context, decider.Decider) error) error {
	p.forwarded.Add(1)
	r.counts.forwarded.Add(1)
	asking := ctx
	if hasty {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, r.cfg.Timeout)
		defer cancel()
		defer r.counts.took.measure(time.Now())
	}
	err := f(asking, p.link)
	if err != nil && ctx.Err() == nil && local.IsUndecided(err) {
		if err == decider.ErrMoved {
			return err
		}
		p.failed.Add(1)
		r.counts.failed.Add(1)
		return errAlone
	}
	return err
}
