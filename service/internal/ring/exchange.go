package ring

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// An exchangePart is the exchange of a leaf with one member.
type exchangePart struct {
	target target
	at     []int // the indexes of the reports in the exchange
	asked  decider.LeafExchange
	got    decider.LeafAnswer
	err    error
}

// Exchange takes the exchange of a leaf: see decider.Decider. Every member that can be asked gets it,
// with the reports about its keys. A report about a key whose owner cannot be asked gets an
// Assignment with Learning: the leaf does as if it had no answer. When the owner of a key has
// changed without handing over its state, leaves report all their keys; until they have, they can use up to the limit
// on top of what the lost owner had assigned.
func (r *Ring) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	w := r.view.Load()
	parts, lost := r.divide(w, x)
	var asking sync.WaitGroup
	for _, p := range parts {
		asking.Go(func() {
			ask := func(ctx context.Context, d decider.Decider) error { return d.Exchange(ctx, &p.asked, &p.got) }
			if p.target.here {
				p.err = ask(ctx, r.cfg.Local)
			} else {
				p.err = r.forward(ctx, p.target.place, true, ask)
			}
		})
	}
	asking.Wait()
	return r.join(ctx, x, parts, lost, got)
}

// divide returns the part of each member that can be asked, and the reports for others.
func (r *Ring) divide(w *view, x *decider.LeafExchange) (parts []*exchangePart, lost []int) {
	byOwner := make([]*exchangePart, len(w.names))
	for i, p := range w.places {
		t := target{here: i == w.here && w.quorum, place: p}
		if i == w.here && !w.quorum || i != w.here && (w.cut[i] || !w.quorum && !p.quorum.Load()) {
			continue
		}
		byOwner[i] = &exchangePart{target: t, asked: *x}
		byOwner[i].asked.Reports = nil
		parts = append(parts, byOwner[i])
	}
	for i := range x.Reports {
		report := &x.Reports[i]
		var p *exchangePart
		if w.owners != nil {
			p = byOwner[w.owners[r.cfg.Local.RouteKey(report.Key)]]
		}
		if p == nil {
			lost = append(lost, i)
			continue
		}
		p.at, p.asked.Reports = append(p.at, i), append(p.asked.Reports, *report)
	}
	if x.Single && len(x.Reports) > 0 { // only the reported keys are renewed
		parts = slices.DeleteFunc(parts, func(p *exchangePart) bool { return len(p.at) == 0 })
	}
	return parts, lost
}

// join joins the answers of members. The error can be ctx.Err() or decider.ErrLeaves.
func (r *Ring) join(ctx context.Context, x *decider.LeafExchange, parts []*exchangePart, lost []int, got *decider.LeafAnswer) error {
	*got = decider.LeafAnswer{Answer: leaf.Answer{
		Assignments: append(got.Assignments[:0], make([]leaf.Assignment, len(x.Reports))...), Watch: got.Watch[:0],
	}}
	answered := false
	for _, p := range parts {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case p.err == decider.ErrLeaves:
			return p.err
		case p.err != nil || len(p.got.Assignments) != len(p.at):
			lost = append(lost, p.at...)
			continue
		}
		for i, at := range p.at {
			got.Assignments[at] = p.got.Assignments[i]
		}
		got.TTLMS, got.NextMS = least(answered, got.TTLMS, p.got.TTLMS), least(answered, got.NextMS, p.got.NextMS)
		got.Known += p.got.Known
		got.Resync = got.Resync || p.got.Resync
		got.Watch = append(got.Watch, p.got.Watch...)
		answered = true
	}
	for _, at := range lost {
		got.Assignments[at] = leaf.Assignment{Key: x.Reports[at].Key, Learning: true}
	}
	if !answered {
		return r.unavailable(errAlone)
	}
	return nil
}

// least returns the lesser of two times, or the second if there is no first.
func least(first bool, a, b int64) int64 {
	if first {
		return min(a, b)
	}
	return b
}
