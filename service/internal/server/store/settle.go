package store

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// AppendGrantID appends the id of a grant, which every node can settle: see decider.Decider.
func (s *Counts) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return s.grants.AppendID(b, g, s.of.Clock.Time(g.At), key)
}

// Redeem first marks the grant as settled in the store, so that no other node settles it too; if
// the store goes away before the cost is settled, the grant keeps its cost.
func (s *Counts) Redeem(ctx context.Context, m *rules.Match, key, id string, n int) (decider.Settlement, error) {
	var sums [counts.MaxSums]uint64
	g, gave, at, err := s.grants.Read(id, key, counts.Sums(m, func(r *rules.Rule) uint64 { return counts.Mark(r, 0) }, sums[:0]), time.Now())
	if err != nil {
		return decider.Settlement{}, err
	}
	if first, err := s.markSettled(ctx, key, id); err != nil || !first {
		return decider.Settlement{}, cmp.Or(err, decider.ErrNoGrant)
	}
	return counts.Settle(m, g, gave, n, func(r *rules.Rule) (int, error) { return s.settleOne(ctx, m.Set, r, key, g, at, n) })
}

// markSettled notes in the store that a grant is settled, and reports whether it was not.
func (s *Counts) markSettled(ctx context.Context, key, id string) (first bool, err error) {
	once, err := redisscript.NewWindow(redisscript.FixedWindow, 1, decider.GrantLife)
	if err != nil {
		return false, err
	}
	mark := bucketAsk{key: s.storedKey(key, `\settled:`+strings.ToLower(id)), quota: once, take: redisscript.Take{N: 1, Least: 1}}
	a, err := s.askFor(ctx, mark)
	return err == nil && a.reply.Granted, err
}

// askFor asks the store for one bucket.
func (s *Counts) askFor(ctx context.Context, b bucketAsk) (*asking, error) {
	a := &asking{buckets: []bucketAsk{b}, lane: s.link.Lane(b.key)}
	return a, s.unavailable(ctx, s.ask(ctx, a))
}

// settleOne settles under one rule, and returns what the grant has cost there.
func (s *Counts) settleOne(ctx context.Context, set *rules.Set, r *rules.Rule, key string, g decider.Grant, at time.Time, n int) (int, error) {
	stored := s.storedRule(set, r)
	take := redisscript.Take{N: n - g.N, Most: stored.most}
	switch {
	case n == g.N:
		return n, nil
	case n < g.N:
		take.Taken, take.Remain = time.Duration(at.UnixNano()), n
	default:
		take.Debt = counts.MaxDebt(r)
	}
	a, err := s.askFor(ctx, bucketAsk{key: s.storedKey(r.Bucket(key), stored.name), quota: stored.quota, take: take})
	if err != nil {
		return g.N, err
	}
	return g.N + a.reply.Taken(0), nil
}
