package ring

import (
	"context"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Exchange takes the exchange of a leaf: see decider.Decider. Every member that can be asked gets it,
// with the reports about its keys. A report about a key whose owner cannot be asked gets an
// Assignment with Learning: the leaf does as if it had no answer.
//
// An answer renews all assignments of the leaf, also those of an owner that could not be asked. So
// it is valid for as long as that owner keeps them. After that, the error is peer.ErrUnavailable
// until the owner can be asked, or others own its keys: the leaf asks another member, or decides
// by its safe share.
//
// When the owner of a key has changed, leaves report all their keys. For one time to live, the
// new owner assigns what they say they have.
func (r *Ring) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	*got = decider.LeafAnswer{Answer: leaf.Answer{
		Assignments: append(got.Assignments[:0], make([]leaf.Assignment, len(x.Reports))...), Watch: got.Watch[:0],
	}}
	e := exchange{ring: r, began: r.now(), x: x, got: got, answers: map[string]*exchangePart{}}
	for i := range x.Reports {
		e.todo = append(e.todo, i)
	}
	for {
		w := r.view.Load()
		moved, err := e.ask(ctx, w)
		if err != nil {
			return err
		}
		if !moved || r.now()-e.began > r.cfg.Timeout || !pause(ctx, w.over, poll) {
			return e.finish(ctx, w)
		}
	}
}

// An exchange is the exchange of a leaf with all members.
type exchange struct {
	ring    *Ring
	began   time.Duration
	x       *decider.LeafExchange
	got     *decider.LeafAnswer
	todo    []int                    // the indexes of the reports without an answer
	answers map[string]*exchangePart // the last of each member
}

// An exchangePart is the exchange of a leaf with one member.
type exchangePart struct {
	target target
	name   string
	at     []int // the indexes of the reports in the exchange
	asked  decider.LeafExchange
	got    decider.LeafAnswer
	err    error
}

// ask asks the members that have not answered yet, and the owners of keys without an answer. It
// reports whether keys have moved meanwhile. The error can be ctx.Err() or decider.ErrLeaves.
func (e *exchange) ask(ctx context.Context, w *view) (moved bool, err error) {
	var parts []*exchangePart
	parts, e.todo = e.divide(w)
	var asking sync.WaitGroup
	for _, p := range parts {
		asking.Go(func() { p.err = e.ring.exchangeWith(ctx, p) })
	}
	asking.Wait()
	for _, p := range parts {
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case p.err == decider.ErrLeaves:
			return false, p.err
		case p.err != nil || len(p.got.Assignments) != len(p.at):
			moved = moved || p.err == decider.ErrMoved
			e.todo = append(e.todo, p.at...)
			continue
		}
		e.answers[p.name] = p
		for i, at := range p.at {
			e.got.Assignments[at] = p.got.Assignments[i]
		}
	}
	return moved, nil
}

// exchangeWith has a member answer its part.
func (r *Ring) exchangeWith(ctx context.Context, p *exchangePart) error {
	if !p.target.here {
		return r.forward(ctx, p.target.place, true, func(ctx context.Context, d decider.Decider) error {
			return d.Exchange(ctx, &p.asked, &p.got)
		})
	}
	return r.Receiver().Exchange(ctx, &p.asked, &p.got)
}

// divide returns the part of each member that can be asked, and the reports for others.
func (e *exchange) divide(w *view) (parts []*exchangePart, lost []int) {
	byOwner := make([]*exchangePart, len(w.names))
	for i, p := range w.places {
		here := i == w.here && w.Quorum
		if i == w.here && !w.Quorum || i != w.here && (w.cut[i] || !w.Quorum && !p.quorum.Load()) {
			continue
		}
		byOwner[i] = &exchangePart{target: target{here: here, place: p}, name: w.names[i], asked: *e.x}
		byOwner[i].asked.Reports = nil
	}
	for _, at := range e.todo {
		report := &e.x.Reports[at]
		var p *exchangePart
		if w.owners != nil {
			p = byOwner[w.owners[e.ring.cfg.Local.RouteKey(report.Key)]]
		}
		if p == nil {
			lost = append(lost, at)
			continue
		}
		p.at, p.asked.Reports = append(p.at, at), append(p.asked.Reports, *report)
	}
	for _, p := range byOwner {
		// With Single, only the reported keys are renewed; without reports, all members are asked.
		if all := !e.x.Single || len(e.x.Reports) == 0; p != nil && (len(p.at) > 0 || all && e.answers[p.name] == nil) {
			parts = append(parts, p)
		}
	}
	return parts, lost
}

// finish joins the answers of members.
func (e *exchange) finish(ctx context.Context, w *view) error {
	first := true
	for _, p := range e.answers {
		if first || p.got.TTLMS < e.got.TTLMS {
			e.got.TTLMS = p.got.TTLMS
		}
		if first || p.got.NextMS < e.got.NextMS {
			e.got.NextMS = p.got.NextMS
		}
		e.got.Known += p.got.Known
		e.got.Leaves = max(e.got.Leaves, p.got.Leaves)
		e.got.Resync = e.got.Resync || p.got.Resync
		e.got.Watch = append(e.got.Watch, p.got.Watch...)
		first = false
	}
	for _, at := range e.todo {
		e.got.Assignments[at] = leaf.Assignment{Key: e.x.Reports[at].Key, Learning: true}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case first:
		return e.ring.unavailable(errAlone)
	case e.x.Single || e.x.Leave:
		return nil
	}
	left, whole := e.ring.renewed.note(e, w.names, time.Duration(e.got.TTLMS)*time.Millisecond)
	if left < leastTTL {
		return e.ring.unavailable(errAlone)
	}
	e.got.TTLMS = left.Milliseconds()
	if !whole { // until all can be asked, reports of all keys would not help
		e.got.Known = max(e.got.Known, e.x.Held)
	}
	return nil
}
