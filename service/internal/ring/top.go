package ring

import (
	"cmp"
	"context"
	"slices"
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
	return mergeTop(lists, n), ctx.Err()
}

// mergeTop adds up the requests of keys, and returns the n keys with the most.
func mergeTop(lists [][]decider.Seen, n int) []decider.Seen {
	at := map[string]int{}
	var merged []decider.Seen
	for _, list := range lists {
		for _, s := range list {
			i, known := at[s.Key]
			if !known {
				at[s.Key] = len(merged)
				merged = append(merged, s)
				continue
			}
			merged[i].Allowed += s.Allowed
			merged[i].Denied += s.Denied
			merged[i].LeasesRefused += s.LeasesRefused
			merged[i].Waiting += s.Waiting
		}
	}
	slices.SortFunc(merged, func(a, b decider.Seen) int {
		return cmp.Or(cmp.Compare(b.Requests(), a.Requests()), cmp.Compare(a.Key, b.Key))
	})
	return merged[:min(max(n, 0), len(merged))]
}
