package memory

import (
	"context"
	"slices"

	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// Await waits in order of arrival, and again if the rules change: see counts.Counts.
func (m *Counts) Await(ctx context.Context, a *counts.Asked, again func(*counts.Asked) bool) {
	counts.Await(ctx, a, again, m.takeWaiting)
}

// awaitTake is take for counts.Await.
func (m *Counts) awaitTake(a *counts.Ask, w *counts.Wait) error {
	v := m.find(a.Set)
	if v == nil {
		return waiting.ErrMoved
	}
	return m.take(v, a, w)
}

// line returns where a request waits under a rule.
func (m *Counts) line(r *Rule, req *decider.Request) counts.Line {
	l := m.cfg.Line(req, r.Rule, &r.Queue, r.Bucket(req.Key))
	l.Limit = r.limitFor(l.OwnLimit)
	return l
}

// move moves the requests that wait under the old rules while others count for their keys: see counts.Move.
func (m *Counts) move(old, next *Version) (done func()) {
	same := map[string]bool{}
	line := func(of *rules.Rule, req *decider.Request) counts.Line {
		r := next.At(of)
		return m.line(&r, req)
	}
	return counts.Move(old.queues, next.Set, line, func(req *decider.Request) bool {
		stays, known := same[req.Key]
		if !known {
			stays = sameRules(old.list(old.Find(req.Key).Rated), next.list(next.Find(req.Key).Rated))
			same[req.Key] = stays
		}
		return stays
	})
}

// queues yields the queues of all rules.
func (v *Version) queues(yield func(*quota.Queue) bool) {
	v.States(func(st *State) bool { return yield(&st.Queue) })
}

// sameRules reports whether a request waits under one list of rules as under the other.
func sameRules(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(a, b Rule) bool {
		return a.State == b.State && a.Mode == b.Mode && a.MaxWait == b.MaxWait && a.base == b.base
	})
}
