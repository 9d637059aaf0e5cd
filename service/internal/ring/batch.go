package ring

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Batch decides many requests: see decider.Decider. The owners of the keys decide their parts at
// the same time.
//
// With all set and several owners, each owner takes the tokens of its part, all or nothing. If one
// of them denies, the others get their tokens back before Batch returns: later requests see all or
// nothing. Meanwhile other requests can be denied for want of these tokens. If this process ends
// in between, or an owner cannot be told, the tokens stay taken until the buckets have refilled.
// The same holds for tokens of quotas that requests bring, if more than one owner has some.
func (r *Ring) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	ok, err = r.batch(ctx, reqs, all, verdicts, time.Now())
	for i := range reqs {
		r.counts.decided(verdicts[i].Step)
	}
	return ok, err
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (r *Ring) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	replaced := r.cfg.Local.Replaced(reqs)
	if replaced == nil {
		return r.Batch(ctx, reqs, all, verdicts)
	}
	p := part{}
	for i := range reqs {
		if replaced[i] {
			verdicts[i] = decider.Verdict{OK: true, At: r.cfg.Local.Now(), Answers: verdicts[i].Answers[:0]}
		} else {
			p.add(i, &reqs[i], &verdicts[i])
		}
	}
	ok, err = r.Batch(ctx, p.reqs, all, p.verdicts)
	p.copyTo(verdicts)
	if all && !ok {
		denyAll(verdicts[:len(reqs)])
	}
	return ok, err
}

// A part is the requests of a batch that have the same owner.
type part struct {
	slot     uint16 // of one of the requests
	at       []int  // the indexes of the requests in the batch
	reqs     []decider.Request
	verdicts []decider.Verdict
	final    bool // it has quotas of requests: the tokens cannot be returned
	ok       bool
	err      error
}

func (p *part) add(i int, req *decider.Request, v *decider.Verdict) {
	p.at, p.reqs, p.verdicts = append(p.at, i), append(p.reqs, *req), append(p.verdicts, *v)
	p.final = p.final || req.Quota != nil && req.N > 0
}

func (p *part) copyTo(verdicts []decider.Verdict) {
	for i, at := range p.at {
		verdicts[at] = p.verdicts[i]
	}
}

// split returns the parts of a batch. A batch with one owner is not copied.
func (r *Ring) split(w *view, reqs []decider.Request, verdicts []decider.Verdict) []*part {
	owners := make([]int, len(reqs))
	one := true
	for i := range reqs {
		at := r.cfg.Local.Route(&reqs[i])
		if owners[i] = -1; w.owners != nil {
			owners[i] = int(w.owners[at])
		}
		one = one && owners[i] == owners[0]
	}
	if one {
		return []*part{{slot: r.cfg.Local.Route(&reqs[0]), reqs: reqs, verdicts: verdicts[:len(reqs)]}}
	}
	byOwner := map[int]*part{}
	var parts []*part
	for i := range reqs {
		p := byOwner[owners[i]]
		if p == nil {
			p = &part{slot: r.cfg.Local.Route(&reqs[i])}
			byOwner[owners[i]] = p
			parts = append(parts, p)
		}
		p.add(i, &reqs[i], &verdicts[i])
	}
	return parts
}

// batch is Batch, for a batch that has come at an instant.
func (r *Ring) batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict, came time.Time) (ok bool, err error) {
	if len(reqs) == 0 {
		return true, ctx.Err()
	}
	w := r.view.Load()
	parts := r.split(w, reqs, verdicts)
	if len(parts) == 1 {
		p := parts[0]
		r.askPart(ctx, w, p, all, came)
		return p.ok, p.err
	}
	if err := r.cfg.Local.CheckRequests(reqs); err != nil { // an owner knows only its part
		return false, err
	}
	first, last := parts, []*part(nil)
	if all {
		first, last = nil, nil
		for _, p := range parts {
			for i := range p.reqs {
				p.reqs[i].WantID = p.reqs[i].N > 0
			}
			if p.final {
				last = append(last, p)
			} else {
				first = append(first, p)
			}
		}
	}
	var asking sync.WaitGroup
	for _, p := range first {
		asking.Go(func() { r.askPart(ctx, w, p, all, came) })
	}
	asking.Wait()
	ok, err = outcome(first)
	for _, p := range last {
		if !ok || err != nil {
			break
		}
		r.askPart(ctx, w, p, all, came)
		ok, err = outcome(parts)
	}
	if all && !ok {
		r.undo(ctx, parts)
	}
	for _, p := range parts {
		p.copyTo(verdicts)
	}
	return ok, err
}

// outcome returns the outcome of a batch from that of its parts. Parts that were not asked do not
// count.
func outcome(parts []*part) (ok bool, err error) {
	ok = true
	for _, p := range parts {
		if p.err != nil && err == nil {
			err = p.err
		}
		ok = ok && p.ok
	}
	return ok && err == nil, err
}

// askPart has the owner decide a part. If the owner has given up keys of the part, it is divided
// again.
func (r *Ring) askPart(ctx context.Context, w *view, p *part, all bool, came time.Time) {
	err := errAlone
	ask := func(ctx context.Context, d decider.Decider) (err error) {
		p.ok, err = d.Batch(ctx, p.reqs, all, p.verdicts)
		return err
	}
	switch t := w.route(p.slot); {
	case t.here:
		err = ask(ctx, r.cfg.Local)
	case t.place != nil:
		err = r.forward(ctx, t.place, true, ask)
	case r.joins(w):
		err = decider.ErrMoved
	}
	if err == decider.ErrMoved {
		if time.Since(came) > r.cfg.Timeout {
			err = errAlone
		} else if pause(ctx, w.over, poll) {
			p.ok, p.err = r.batch(ctx, p.reqs, all, p.verdicts, came)
			return
		}
	}
	if err == errAlone {
		p.ok, err = r.cfg.Fallback.Batch(ctx, p.reqs, all, p.verdicts)
		for i := range p.verdicts {
			r.degraded(p.reqs[i].Key, &p.verdicts[i])
		}
	}
	p.err = err
	p.ok = p.ok && err == nil
}

// undo returns what parts have taken, and denies their requests.
func (r *Ring) undo(ctx context.Context, parts []*part) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Settle)
	defer cancel()
	var undoing sync.WaitGroup
	for _, p := range parts {
		undoing.Go(func() {
			for i := range p.reqs {
				req, v := &p.reqs[i], &p.verdicts[i]
				if v.OK && req.N > 0 && req.Quota == nil {
					id := r.AppendGrantID(nil, v.Grant, req.Key)
					_, _ = r.Settle(ctx, req.Key, string(id), 0) // else the tokens return with time
				}
			}
			denyAll(p.verdicts)
		})
	}
	undoing.Wait()
}

// denyAll denies the requests that would have been allowed.
func denyAll(verdicts []decider.Verdict) {
	for i := range verdicts {
		if verdicts[i].OK {
			verdicts[i].Deny(0, 0)
		}
	}
}
