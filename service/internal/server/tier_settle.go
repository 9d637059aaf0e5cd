package server

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// AppendGrantID appends the id of a grant: see decider.Decider. Grants of the upstream have theirs.
func (t *Tier) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	if g.ID != "" {
		return append(b, g.ID...)
	}
	return t.Server.AppendGrantID(b, g, key)
}

// Settle reports the true cost of a grant: see decider.Decider. A grant by an assignment is settled
// there, the others where they were given.
func (t *Tier) Settle(ctx context.Context, key, id string, n int) (done decider.Settled, err error) {
	if n < 0 {
		panic("server: negative cost")
	}
	rs := t.rules.Load()
	m := t.keys.Find(key, rs.Set).Match
	if len(m.Rated) > 0 {
		if terms := t.terms(rs, m); terms.way == byLeaf {
			now := t.clock.Now()
			g, _, err := t.grants.Redeem(id, key, []uint64{terms.rule.mark() + leafMark}, now)
			if err == nil {
				return t.settleLeaf(terms, key, g, n), nil
			}
		}
	}
	if done, err = t.Server.Settle(ctx, key, id, n); err == nil {
		return done, nil
	}
	err = t.ask(ctx, func(ctx context.Context) (err error) {
		done, err = t.cfg.Upstream.Settle(ctx, key, id, n)
		return err
	})
	return done, err
}

// settleLeaf settles a grant of the leaf, within the debt that the rule allows.
func (t *Tier) settleLeaf(terms *tierTerms, key string, g decider.Grant, n int) decider.Settled {
	r, done := terms.rule, decider.Settled{Was: g.N, Charged: n}
	debt := r.Limit()
	if r.MaxDebt != nil {
		debt = *r.MaxDebt
	}
	done.Charged = t.leaf.Settle(terms.key(key), t.onLeaf(g.At), g.N, min(n, g.N+debt))
	return done
}

// onLeaf returns the instant of a grant on the clock of the leaf.
func (t *Tier) onLeaf(at time.Duration) time.Duration { return (at - t.leafAhead()).Round(usage.Grain) }

// leafAhead returns by how much the node's clock is ahead of that of the leaf.
func (t *Tier) leafAhead() time.Duration { return t.clock.Now() - t.leaf.Now() }
