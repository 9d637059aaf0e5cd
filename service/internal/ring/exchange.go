package ring

import (
	"context"
	"sync"

	"github.com/weir-go/weir/service/internal/ring/leaves"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Exchange takes the exchange of a leaf: see decider.Decider. Every member that can be asked gets it,
// with the reports about its keys. A report about a key gets, while its owner cannot be asked, an
// Assignment with Learning: the leaf does as if it had no answer.
//
// An answer renews all assignments of the leaf, also those of an owner that could not be asked. So
// it is valid for as long as that owner keeps them. After that, the error is wire.ErrUnavailable
// until the owner can be asked, or others own its keys: the leaf asks another member, or decides
// by its safe share.
//
// When the owner of a key has changed, leaves report all their keys. For a while, the
// new owner assigns what they say they have: see the package.
func (r *Ring) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	e := leaves.New(x, got, r.now())
	for {
		w := r.view.Load()
		moved, err := r.askOwners(ctx, e, w)
		if err != nil {
			return err
		}
		if moved && r.now()-e.Began <= r.cfg.Timeout && pause(ctx, w.over, poll) {
			continue
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !e.Finish(&r.renewed, w.names):
			return r.unavailable(errAlone)
		}
		return nil
	}
}

// askOwners asks the members that have not answered yet, and the owners of keys without an answer. It
// reports whether keys have moved meanwhile. The error can be ctx.Err() or decider.ErrLeaves.
func (r *Ring) askOwners(ctx context.Context, e *leaves.Exchange, w *view) (moved bool, err error) {
	canAsk := func(i int) bool {
		if i == w.here {
			return w.Quorum
		}
		return !w.cut[i] && (w.Quorum || w.places[i].quorum.Load())
	}
	parts := e.Divide(w.names, canAsk, func(key string) int {
		if w.owners == nil {
			return -1
		}
		return int(w.owners[r.cfg.Local.RouteKey(key)])
	})
	var asking sync.WaitGroup
	for _, p := range parts {
		asking.Go(func() { p.Err = r.exchangeWith(ctx, p, w) })
	}
	asking.Wait()
	if len(parts) > 0 && ctx.Err() != nil {
		return false, ctx.Err()
	}
	return e.Take(parts)
}

// exchangeWith has a member answer its part.
func (r *Ring) exchangeWith(ctx context.Context, p *leaves.Part, w *view) error {
	if p.Owner == w.here {
		return r.Receiver().Exchange(ctx, &p.Asked, &p.Got)
	}
	return r.forward(ctx, w.places[p.Owner], true, func(ctx context.Context, d decider.Decider) error {
		return d.Exchange(ctx, &p.Asked, &p.Got)
	})
}
