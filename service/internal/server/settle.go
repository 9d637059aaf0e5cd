package server

import (
	"context"
	"math/bits"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/usage"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// grant adds an answer of the rule, which allows, to a grant.
func (r *rule) grant(g *decider.Grant, answer *decider.Answer) {
	g.Rules += r.mark()
	if r.Algorithm.Resets() && r.Algorithm != config.Calendar && answer.ResetAfter != weir.Never { // the window may have begun after the instant
		g.At = max(g.At, answer.At+answer.ResetAfter-r.Rate.Period)
	}
}

// maxShadows bounds the shadow rules of a key that hear of settlements. Each may have
// given or not, which doubles the sums that Settle compares with that of the grant.
const maxShadows = 4

// sums appends what Grant.Rules can be for a grant of these rules. Bit i of a sum's index
// is set if the shadow rule i gave.
func (rs *version) sums(m *rules.Match, all []uint64) []uint64 {
	all = append(all, 0)
	for _, r := range m.Rated {
		if r.Mode != config.Shadow {
			all[0] += rs.at(r).mark()
		}
	}
	for _, r := range m.Rated {
		if r.Mode == config.Shadow && len(all) < 1<<maxShadows {
			for _, sum := range all {
				all = append(all, sum+rs.at(r).mark())
			}
		}
	}
	return all
}

// mark identifies the rule and its state. A grant has the sum of the marks of the rules
// that gave, which does not depend on their order.
func (r *rule) mark() uint64 {
	return bits.RotateLeft64((r.NameHash^uint64(r.since))*0x9e37_79b9_7f4a_7c15, 32) * 0x9e37_79b9_7f4a_7c15
}

// AppendGrantID appends the id of a grant: see decider.Decider.
func (s *Server) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return s.grants.AppendID(b, g, key)
}

// Settle reports the true cost of a grant: see decider.Decider.
func (s *Server) Settle(ctx context.Context, key, id string, n int) (decider.Settled, error) {
	if n < 0 {
		panic("server: negative cost")
	}
	if err := s.enter(ctx, key); err != nil {
		return decider.Settled{}, err
	}
	rs := s.rules.Load()
	return s.counter.redeem(ctx, rs, s.keys.Find(key, rs.Set).Match, key, id, n)
}

func (s memory) redeem(_ context.Context, rs *version, m *rules.Match, key, id string, n int) (decider.Settled, error) {
	var sums [1 << maxShadows]uint64
	g, gave, err := s.grants.Redeem(id, key, rs.sums(m, sums[:0]), s.clock.Now())
	if err != nil {
		return decider.Settled{}, err
	}
	return rs.settle(m, g, gave, n, func(r *rule) (int, error) { return r.charge(key, g.At, g.N, n), nil })
}

// settle charges under each rule that gave; charge returns what the grant has cost there. Bit i of
// gave is set if the shadow rule i gave.
func (rs *version) settle(m *rules.Match, g decider.Grant, gave, n int, charge func(*rule) (int, error)) (decider.Settled, error) {
	done, charged := decider.Settled{Was: g.N, Charged: n}, false
	for _, of := range m.Rated {
		shadow := of.Mode == config.Shadow
		took := !shadow || gave&1 != 0
		if shadow {
			gave >>= 1
		}
		if !took {
			continue
		}
		c, err := charge(rs.at(of))
		if err != nil {
			return done, err
		}
		if !shadow && (!charged || c > done.Charged) {
			done.Charged, charged = c, true
		}
	}
	return done, nil
}

// maxDebt returns the tokens that a bucket may owe.
func (r *rule) maxDebt() int {
	if r.MaxDebt != nil {
		return *r.MaxDebt
	}
	return r.Limit()
}

// charge settles under one rule, within the debt that it allows. The instant of the grant is
// rounded down to whole milliseconds.
func (r *rule) charge(key string, at time.Duration, was, n int) int {
	if n > was {
		r.charging.Lock()
		defer r.charging.Unlock()
		room := r.maxDebt() + r.Limit() - r.buckets.Used(r.Bucket(key))
		n = min(n, was+max(room, 0))
	}
	if r.Algorithm.Windows() {
		at += usage.Grain // its window may have begun in the millisecond
	}
	return r.settle(key, at, was, n)
}
