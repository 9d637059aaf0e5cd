package server

import (
	"context"

	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A Resetter can return all tokens of a key.
type Resetter interface {
	Reset(ctx context.Context, key string) ([]decider.Reset, error)
}

// Reset returns all tokens of a key to its buckets, so that it has its whole limit again, and
// serves the requests that wait for them. It ends debts, too. The result has an element for each
// rule with a rate that counts for the key; there are none if no such rule does. A bucket that keys
// share is full for all of them. Leases, and quotas that requests bring, are not changed.
func (s *Server) Reset(ctx context.Context, key string) ([]decider.Reset, error) {
	if err := s.enter(ctx, key); err != nil {
		return nil, err
	}
	rs := s.rules.Load()
	return s.resetHere(rs, s.keys.RulesOf(key, rs.Set), key), nil
}

// resetHere is Reset for the buckets of this node.
func (s *Server) resetHere(rs *version, m *rules.Match, key string) []decider.Reset {
	done := []decider.Reset{}
	for _, r := range rs.list(m.Rated) {
		bucket := r.Bucket(key)
		done = append(done, decider.Reset{Rule: r.Name, Returned: r.buckets.Reset(bucket)})
		if r.candidate != nil {
			r.candidate.Reset(bucket)
		}
		r.queue.Serve(bucket)
	}
	s.keys.Get(key).ForgetDenials()
	return done
}

// deleteScript deletes a bucket: a full bucket is none.
var deleteScript = redislink.NewScript(`if ARGV[1] == '1' then return {redis.call('DEL', KEYS[1])} end return {0}`)

// Reset is Server.Reset for buckets in the store. The error says that the store does not answer.
func (s *Shared) Reset(ctx context.Context, key string) ([]decider.Reset, error) {
	rs := s.rules.Load()
	m := s.keys.RulesOf(key, rs.Set)
	if len(m.Rated) == 0 {
		return []decider.Reset{}, nil
	}
	a, err := s.prepare(&asked{ask: ask{Found: rules.Found{Match: m}, rs: rs, req: &decider.Request{Key: key}}}, nil)
	if err == nil {
		err = s.ask(ctx, a)
	}
	if err != nil {
		return nil, s.unavailable(ctx, err)
	}
	done := []decider.Reset{}
	for i, r := range m.Rated {
		at, b := a.bucket(i)
		c := &redislink.Call{Script: deleteScript, Keys: []string{b.key}, Args: []any{1}, Look: func() []any { return []any{0} }}
		if _, err := s.link.Lane(b.key).Ask(ctx, c); err != nil {
			return done, s.unavailable(ctx, err)
		}
		done = append(done, decider.Reset{Rule: r.Name, Returned: max(a.reply.Used(at, &b.quota), 0)})
	}
	s.resetHere(rs, m, key) // the share by which the node decides while the store is away
	return done, nil
}

// Reset returns decider.ErrResetUpstream if the upstream decides about the key.
func (t *Tier) Reset(ctx context.Context, key string) ([]decider.Reset, error) {
	if m := t.keys.RulesOf(key, t.rules.Load().Set); len(m.Rated) > 0 {
		return nil, decider.ErrResetUpstream
	}
	return t.Server.Reset(ctx, key)
}
