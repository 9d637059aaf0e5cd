package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// leaseAway decides about a lease while the store does not answer: by the node's share of the
// limits, or as the rules say. The next renewal tells the store of the lease.
func (s *Shared) leaseAway(l *sharedLease) (granted decider.Lease, err error) {
	lane, step := s.link.Lane(l.asks[0].key), decider.Share
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	s.held.expireLocked(time.Now())
	used := make([]int64, len(l.asks))
	for i := range l.asks {
		a := &l.asks[i]
		away := cmp.Or(a.rule.Away, s.cfg.Away)
		used[i] = int64(s.held.units[a.key] + l.n)
		if away != config.AwayShare {
			step = decider.ByRule
		}
		if a.limit < 0 || away == config.AwayAllow || away == config.AwayShare && int(used[i]) <= a.limit/s.memory.Instances() {
			continue
		}
		s.steps[step].Add(1)
		granted.Step = step
		if away == config.AwayDeny {
			return granted, l.refuse(weir.Closed, lane.RetryAfter())
		}
		return granted, l.refuse(weir.OverLimit, 0)
	}
	s.steps[step].Add(1)
	l.untold, l.token = true, uint64(time.Now().UnixMicro())
	if !s.held.addLocked(l, time.Now().Add(l.ttl), s.leases.Max()) {
		return granted, l.refuse(weir.OverLimit, 0)
	}
	l.count()
	granted = l.view(used)
	granted.Step = step
	return granted, nil
}

// denyAway reports whether a rule of a lease denies while the store does not answer.
func (s *Shared) denyAway(l *sharedLease) bool {
	return slices.ContainsFunc(l.asks, func(a leaseAsk) bool { return a.limit >= 0 && cmp.Or(a.rule.Away, s.cfg.Away) == config.AwayDeny })
}
