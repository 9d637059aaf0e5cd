package server

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// AppendGrantID appends the id of a grant: see decider.Decider. Grants of the upstream have theirs.
func (t *Tier) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	if g.ID != "" {
		return append(b, g.ID...)
	}
	return t.Server.AppendGrantID(b, g, key)
}

// redeem settles a grant by an assignment there, the others where they were given.
func (t assigned) redeem(ctx context.Context, rs *version, m *rules.Match, key, id string, n int) (done decider.Settled, err error) {
	if len(m.Rated) > 0 {
		if terms := t.terms(rs, m); terms.way == byLeaf {
			g, _, err := t.grants.Redeem(id, key, []uint64{terms.rule.mark() + leafMark}, t.clock.Now())
			if err == nil {
				charged := t.leaf.Settle(terms.key(key), t.onLeaf(g.At), g.N, min(n, g.N+terms.rule.maxDebt()))
				return decider.Settled{Was: g.N, Charged: charged}, nil
			}
		}
	}
	if done, err = (memory{t.Server}).redeem(ctx, rs, m, key, id, n); err == nil {
		return done, nil
	}
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		done, err = t.cfg.Upstream.Settle(ctx, key, id, n)
		return err
	})
	return done, err
}

// onLeaf returns the instant of a grant on the clock of the leaf.
func (t *Tier) onLeaf(at time.Duration) time.Duration { return (at - t.leafAhead()).Round(usage.Grain) }

// leafAhead returns by how much the node's clock is ahead of that of the leaf.
func (t *Tier) leafAhead() time.Duration { return t.clock.Now() - t.leaf.Now() }
