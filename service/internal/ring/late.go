package ring

import (
	"context"

	"github.com/weir-go/weir/service/internal/ring/census"
)

// claimLateLocked claims the state of the slots that this node decides from processes that have come
// since. A process that has read a state file can have some: of a fleet that was shut down, its last
// member has the state of all keys. Requests are not held meanwhile.
func (r *Ring) claimLateLocked(w *view) {
	slots := w.decides()
	if slots.Len() == 0 {
		return
	}
	for name, status := range w.Status {
		p, node := r.places[name], r.census.Node(name)
		if status != census.Live || name == w.Self || p == nil || p.link == nil || node == "" || p.claimed == node {
			continue
		}
		p.claimed = node
		cl := r.claims.Begin(slots)
		r.work.Go(func() {
			defer r.claims.End(cl)
			ctx, cancel := context.WithTimeout(r.ctx, maxClaim)
			defer cancel()
			if _, err := r.claimFrom(ctx, p, cl); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				if p.claimed == node {
					p.claimed = "" // with the next view
				}
			}
		})
	}
}
