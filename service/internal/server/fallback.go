package server

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/node"
)

// fallbackMemory is the part of Config.Memory that a Fallback uses, as 1/fallbackMemory.
const fallbackMemory = 8

// A Fallback decides about keys while their owner in a fleet cannot be asked: by the node's share, which
// is the limits of the rules divided by the number of nodes, or as the rules say (config.Rule.Away).
// Its verdicts and leases have a Step, and grants that were asked for with WantID have an ID, which
// only the Fallback can settle. It is safe for concurrent use.
type Fallback struct {
	server *Server
	away   config.Away

	mu        sync.Mutex                      // held while the rules change
	shareless atomic.Pointer[map[string]bool] // names of rules with a concurrency of less than one unit for each node
}

// NewFallback returns a Fallback for a fleet of one node. Rules without config.Rule.Away decide
// as otherwise says. It uses an eighth of cfg.Memory.
func NewFallback(cfg Config, otherwise config.Away) (*Fallback, error) {
	cfg.Memory = cmp.Or(cfg.Memory, DefaultMemory) / fallbackMemory
	cfg.Instances, cfg.Fleet = 1, "" // no other node may settle its grants
	cfg.Recorder = nil               // the node that falls back has it
	rules := cmp.Or(cfg.Rules, new(config.Rules))
	shared, shareless := fallbackRules(rules, 1, otherwise)
	cfg.Rules = shared
	f := &Fallback{away: otherwise}
	var err error
	f.server, err = compose(cfg, func(s *Server, of *node.Config) {
		f.server, of.Counts = s, away.Share{Counts: s.memory, Otherwise: otherwise}
	})
	if err != nil {
		return nil, err
	}
	f.shareless.Store(&shareless)
	return f, nil
}

// Use changes the rules, as Server.Reload does, and the number of nodes, >= 1.
func (f *Fallback) Use(rules *config.Rules, nodes int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	shared, shareless := fallbackRules(rules, nodes, f.away)
	s := f.server
	s.reload.Lock()
	defer s.reload.Unlock()
	was := s.memory.SetInstances(nodes)
	if err := s.reloadLocked(shared); err != nil {
		s.memory.SetInstances(was)
		return err
	}
	f.shareless.Store(&shareless)
	return nil
}

// unlimitedUnits is the concurrency of a rule that allows all leases without its owner.
const unlimitedUnits = 1 << 20

// fallbackRules returns rules with the node's share of each concurrency, and the names of rules
// that have less than a unit.
func fallbackRules(rules *config.Rules, nodes int, otherwise config.Away) (*config.Rules, map[string]bool) {
	shared, shareless := *rules, map[string]bool{}
	shared.Rules = slices.Clone(rules.Rules)
	for i := range shared.Rules {
		r := &shared.Rules[i]
		r.Memory, r.Candidate = 0, nil
		if r.Concurrency == nil {
			continue
		}
		c := *r.Concurrency
		units := int(c.Limit)
		if c.Limit == config.Auto {
			units = max(c.Min, 1)
			c.Min, c.Max = 0, 0
		}
		if units /= nodes; units < 1 {
			shareless[r.Name] = true
		}
		if c.Limit = config.Limit(max(units, 1)); cmp.Or(r.Away, otherwise) == config.AwayAllow {
			c.Limit = unlimitedUnits
		}
		r.Concurrency = &c
	}
	return &shared, shareless
}

// Decide decides at once: see decider.Decider.
func (f *Fallback) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	err := f.server.Decide(ctx, req, v)
	if err == nil {
		f.mark(req, v)
	}
	return err
}

// mark completes a Verdict. That about a key without a rate has the step of one that is not shared.
func (f *Fallback) mark(req *decider.Request, v *decider.Verdict) {
	switch {
	case v.Step != decider.Exact:
	case f.away == config.AwayShare:
		v.Step = decider.Share
	default:
		v.Step = decider.ByRule
	}
	if v.OK && req.WantID && v.Grant.N > 0 {
		v.Grant.ID = string(f.server.AppendGrantID(nil, v.Grant, req.Key))
	}
}

// Wait waits for tokens of the node's share: see decider.Decider. If the rule decides, the request
// does not wait.
func (f *Fallback) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	err := f.server.Wait(ctx, req, v)
	f.mark(req, v)
	return err
}

// Batch decides many requests: see decider.Decider.
func (f *Fallback) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	if ok, err = f.server.Batch(ctx, reqs, all, verdicts); err == nil {
		for i := range reqs {
			f.mark(&reqs[i], &verdicts[i])
		}
	}
	return ok, err
}

// Settle reports the true cost of a grant: see decider.Decider.
func (f *Fallback) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	return f.server.Settle(ctx, key, id, n)
}

// Acquire takes a lease: see decider.Decider.
func (f *Fallback) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	shareless, step := *f.shareless.Load(), decider.Share
	for _, r := range f.server.Match(req.Key).List {
		how := cmp.Or(r.Away, f.away)
		if how != config.AwayShare && r.Concurrency != nil {
			step = decider.ByRule
		}
		switch {
		case r.Concurrency == nil || r.Mode == config.Shadow:
		case how == config.AwayDeny:
			return decider.Lease{Step: step}, weir.Reject(weir.Closed, away.Retry)
		case how == config.AwayShare && shareless[r.Name]:
			return decider.Lease{Step: step}, weir.Reject(weir.OverLimit, 0)
		}
	}
	l, err := f.server.Acquire(ctx, req)
	l.Step = step
	return l, err
}

// Renew extends a lease: see decider.Decider.
func (f *Fallback) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	l, err := f.server.Renew(ctx, key, id, ttl)
	l.Step = decider.Share
	return l, err
}

// Return ends a lease: see decider.Decider.
func (f *Fallback) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	return f.server.Return(ctx, key, id, o)
}

// Explain reports what a request for the key would get here: see decider.Decider.
func (f *Fallback) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	return f.server.Explain(ctx, key)
}

// Close rejects requests that would have to wait: see Server.Close.
func (f *Fallback) Close(now bool) { f.server.Close(now) }

// Waiting returns how many requests wait.
func (f *Fallback) Waiting() int { return f.server.Waiting() }
