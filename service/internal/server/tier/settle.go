package tier

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// AppendGrantID appends the id of a grant: see decider.Decider. Grants of the upstream have theirs.
func (t *Counts) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	if g.ID != "" {
		return append(b, g.ID...)
	}
	return t.Counts.AppendGrantID(b, g, key)
}

// Redeem settles a grant by an assignment there, the others where they were given.
func (t *Counts) Redeem(ctx context.Context, m *rules.Match, key, id string, n int) (done decider.Settlement, err error) {
	if len(m.Rated) > 0 {
		if terms := t.Terms(m); terms.Way == ByLeaf {
			g, _, err := t.of.Grants.Redeem(id, key, []uint64{counts.Mark(terms.Rule, t.Counts.Since()) + leafMark}, t.of.Clock.Now())
			if err == nil {
				charged := t.leaf.Settle(terms.Key(key), t.onLeaf(g.At), g.N, min(n, g.N+counts.MaxDebt(terms.Rule)))
				return decider.Settlement{Was: g.N, Charged: charged}, nil
			}
		}
	}
	if done, err = t.Counts.Redeem(ctx, m, key, id, n); err == nil || err == waiting.ErrMoved {
		return done, err
	}
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		done, err = t.cfg.Upstream.Settle(ctx, key, id, n)
		return err
	})
	return done, err
}

// onLeaf returns the instant of a grant on the clock of the leaf.
func (t *Counts) onLeaf(at time.Duration) time.Duration {
	return (at - t.leafAhead()).Round(usage.Grain)
}

// leafAhead returns by how much the node's clock is ahead of that of the leaf.
func (t *Counts) leafAhead() time.Duration { return t.of.Clock.Now() - t.leaf.Now() }
