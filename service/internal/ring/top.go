package ring

import (
	"context"
	"sync"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Top returns the keys with the most requests, of all members that can be asked: see
// decider.Decider. The requests of a key that has moved are added up.
func (r *Ring) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	w := r.view.Load()
	lists := make([][]decider.Seen, len(w.places)+1)
	lists[len(w.places)], _ = r.cfg.Local.Top(ctx, n) // no error: it is this process
	var all sync.WaitGroup
	for i, p := range w.places {
		if i == w.here || w.cut[i] {
			continue
		}
		all.Go(func() {
			_ = r.forward(ctx, p, true, func(ctx context.Context, d decider.Decider) (err error) { // a member without an answer is left out
				lists[i], err = d.Top(ctx, n)
				return err
			})
		})
	}
	all.Wait()
	return decider.MergeSeen(lists, n), ctx.Err()
}
