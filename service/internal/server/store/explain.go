package store

import (
	"context"
	"errors"

	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// errStore is the error of calls that only the store can answer.
var errStore = errors.New("the store of shared limits does not answer")

// unavailable returns the error of a call that only the store can answer.
func (s *Counts) unavailable(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == nil {
		return errStore
	}
	return err
}

// Look asks for the buckets of all rules: see counts.Counts.
func (s *Counts) Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (*decider.Explanation, error) {
	a, err := s.lookAt(ctx, m, key)
	if err != nil {
		return nil, err
	}
	rated := -1
	counts.Look(m, states, func(*rules.Rule) decider.RuleState {
		rated++
		at, b := a.bucket(rated)
		return counts.StateOf(a.decision(rated), a.reply.Used(at, &b.quota), 0)
	})
	return nil, nil
}

// lookAt asks for the buckets of a key.
func (s *Counts) lookAt(ctx context.Context, m *rules.Match, key string) (*asking, error) {
	a, err := s.prepare(&counts.Asked{Ask: counts.Ask{Found: rules.Found{Match: m}, Req: &decider.Request{Key: key}}}, nil)
	if err == nil && len(a.buckets) > 0 {
		err = s.ask(ctx, a)
	}
	return a, s.unavailable(ctx, err)
}

// Reset returns all tokens of a key to its buckets in the store, and to the node's share: see counts.Counts.
func (s *Counts) Reset(ctx context.Context, m *rules.Match, key string) ([]decider.Reset, error) {
	a, err := s.lookAt(ctx, m, key)
	if err != nil {
		return nil, err
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
	_, err = s.Counts.Reset(ctx, m, key)
	return done, err
}

// deleteScript deletes a bucket: a full bucket is none.
var deleteScript = redislink.NewScript(`if ARGV[1] == '1' then return {redis.call('DEL', KEYS[1])} end return {0}`)

// Look asks for the leases of all rules: see node.Leases. Only requests that wait at this node count
// as waiting.
func (in Leases) Look(ctx context.Context, m *rules.Match, key string, states []decider.RuleState) (err error) {
	s := in.counts
	for i, r := range m.List {
		if states[i].Lease, err = s.leaseState(ctx, m, r, key); err != nil {
			return err
		}
	}
	return nil
}

// leaseState returns the state of the leases of a key under a rule; nil without a concurrency.
func (s *Counts) leaseState(ctx context.Context, m *rules.Match, r *rules.Rule, key string) (*decider.LeaseState, error) {
	if r.Concurrency == nil {
		return nil, nil
	}
	l := sharedLease{Lease: &away.Lease{Parts: s.held.Parts(&rules.Match{Set: m.Set, List: []*rules.Rule{r}}, key)}}
	reply, err := s.askLease(ctx, &l, redisscript.LookLease)
	if err != nil {
		return nil, s.unavailable(ctx, err)
	}
	return &decider.LeaseState{Limit: int(r.Concurrency.Limit), Inflight: int(reply.Held[0]), Waiting: s.waits.of(&l.Parts[0])}, nil
}

// Charge charges tokens that others have used of a key in the store.
func (s *Counts) Charge(set *rules.Set, key string, n int) {
	for _, r := range s.of.Keys.Find(key, set).Rated {
		st := s.storedRule(set, r)
		b := bucketAsk{key: s.storedKey(r.Bucket(key), st.name), quota: st.quota}
		s.tell(&b, redisscript.Take{N: n, Debt: counts.MaxDebt(r), Most: st.most})
	}
}

// Key returns the key in the store of what else the nodes keep there about the bucket of a rule, and its lane.
func (s *Counts) Key(set *rules.Set, r *rules.Rule, bucket, what string) (string, *redislink.Lane) {
	key := s.storedKey(bucket, s.storedRule(set, r).name+":"+what)
	return key, s.link.Lane(key)
}
