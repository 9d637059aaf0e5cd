package ring

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Decide decides at once: see decider.Decider.
func (r *Ring) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	w := r.view.Load()
	if t := w.route(r.cfg.Local.Route(req)); t.here { // without allocation
		if err := r.cfg.Local.Decide(ctx, req, v); err != decider.ErrMoved {
			r.counts.decided(v.Step)
			return err
		}
	}
	err := r.ask(ctx, r.routeOf(req), r.hasty(), nil, func(ctx context.Context, d decider.Decider) error {
		return d.Decide(ctx, req, v)
	})
	if err == errAlone {
		err = r.cfg.Fallback.Decide(ctx, req, v)
		r.degraded(req.Key, v)
	}
	r.counts.decided(v.Step)
	return err
}

// routeOf returns the function that returns the slot of a request.
func (r *Ring) routeOf(req *decider.Request) func() uint16 {
	return func() uint16 { return r.cfg.Local.Route(req) }
}

// Wait waits for missing tokens: see decider.Decider. If the owner of the key is lost, the request
// waits at the next owner, for the time that is left.
func (r *Ring) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	came := time.Now()
	asked, last := *req, came
	asked.OnWait = onceOnly(req.OnWait)
	caller := ctx
	ctx, leave := r.enter(ctx)
	defer leave()
	for {
		err := r.ask(ctx, r.routeOf(req), r.patient(), asked.OnWait, func(ctx context.Context, d decider.Decider) error {
			last = time.Now()
			return d.Wait(ctx, &asked, v)
		})
		if err == errAlone {
			last = time.Now()
			if err = r.waitAlone(ctx, &asked, v); err == errAlone {
				continue
			}
		}
		if err != nil && ctx.Err() != nil && caller.Err() == nil { // see Dismiss
			*v = decider.Verdict{At: r.cfg.Local.Now(), Answers: v.Answers[:0]}
			v.Deny(weir.Closed, waiting.DrainRetry)
			err = nil
		}
		if before := last.Sub(came); before > time.Millisecond {
			v.Waited += before
		}
		r.counts.decided(v.Step)
		return err
	}
}

// enter counts a request that may wait until leave is called. Its context also ends with Dismiss.
func (r *Ring) enter(ctx context.Context) (_ context.Context, leave func()) {
	r.counts.waiting.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.dismissed, cancel)
	return ctx, func() {
		stop()
		cancel()
		r.counts.waiting.Add(-1)
	}
}

// Dismiss rejects all requests that wait, here or at other members, with the reason weir.Closed.
func (r *Ring) Dismiss() { r.dismiss() }

// waitAlone waits at this node. The error is errAlone if the owner of the key can be asked again,
// or there is another one.
func (r *Ring) waitAlone(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for asking.Err() == nil {
			w := r.view.Load()
			if t := w.route(r.cfg.Local.Route(req)); t.here || t.place != nil {
				cancel()
				return
			}
			select {
			case <-w.over:
			case <-asking.Done():
			}
		}
	}()
	err := r.cfg.Fallback.Wait(asking, req, v)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return errAlone
	}
	r.degraded(req.Key, v)
	return err
}

// degraded samples a verdict of the Fallback.
func (r *Ring) degraded(key string, v *decider.Verdict) {
	if r.cfg.OnDegraded == nil || v.Step == decider.Exact {
		return
	}
	now := int64(r.now())
	if last := r.counts.sampled.Load(); last == 0 || now-last > int64(time.Second) {
		if r.counts.sampled.CompareAndSwap(last, max(now, 1)) {
			r.cfg.OnDegraded(key, v)
		}
	}
}

// onceOnly returns a function that calls f once, if it is not nil.
func onceOnly(f func()) func() {
	return func() {
		if f != nil {
			f()
			f = nil
		}
	}
}
