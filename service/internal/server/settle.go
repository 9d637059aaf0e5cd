package server

import (
	"context"
	"math/bits"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// grantOf returns the grant of n tokens by the rules of a match. Their answers are in v.
func grantOf(m *match, n int, v *decider.Verdict) decider.Grant {
	if n == 0 {
		return decider.Grant{}
	}
	g := decider.Grant{N: n, At: v.At, Slack: decider.GrantLife}
	for i, r := range m.rated {
		if !r.gives() {
			continue
		}
		a := &v.Answers[i]
		g.Rules += r.mark()
		g.Slack = min(g.Slack, slack(r, a, n))
		if r.Algorithm == config.Fixed && a.ResetAfter != weir.Never { // the window may have begun after the instant
			g.At = max(g.At, a.At+a.ResetAfter-r.Rate.Period)
		}
	}
	return g
}

// slack returns for how long a token bucket would not have been full without the n
// tokens of an answer: until then all of them can be returned. Windows decide that
// themselves.
func slack(r *rule, a *decider.Answer, n int) time.Duration {
	if r.Interval == 0 || a.ResetAfter == weir.Never {
		return decider.GrantLife
	}
	return max(a.ResetAfter-time.Duration(float64(n)*r.Interval), 0)
}

// gives reports whether grants include the rule. A rule in shadow mode is left out
// because it may not have given anything.
func (r *rule) gives() bool { return r.Mode != config.Shadow }

// mark identifies the rule and its state. A grant has the sum of the marks of its
// rules, which does not depend on their order.
func (r *rule) mark() uint64 {
	return bits.RotateLeft64((r.NameHash^uint64(r.since))*0x9e37_79b9_7f4a_7c15, 32) * 0x9e37_79b9_7f4a_7c15
}

// AppendGrantID appends the id of a grant: see decider.Decider.
func (s *Server) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	return s.grants.AppendID(b, g, key)
}

// Settle reports the true cost of a grant: see decider.Decider.
func (s *Server) Settle(_ context.Context, key, id string, n int) (decider.Settled, error) {
	if n < 0 {
		panic("server: negative cost")
	}
	now := s.clock.Now()
	_, m, _ := s.keys.find(key, s.rules.Load())
	marks := uint64(0)
	for _, r := range m.rated {
		if r.gives() {
			marks += r.mark()
		}
	}
	g, err := s.grants.Redeem(id, key, marks, now)
	if err != nil {
		return decider.Settled{}, err
	}
	done, charged := decider.Settled{Was: g.N, Charged: n}, false
	for _, r := range m.rated {
		if !r.gives() {
			continue
		}
		c := r.charge(key, g.At, now-r.fullBy(g.At, g.Slack), g.N, n)
		if !charged || c > done.Charged {
			done.Charged, charged = c, true
		}
	}
	return done, nil
}

// fullBy returns by when a bucket would have been full without a grant: after its
// slack, or sooner if the rate was raised since.
func (r *rule) fullBy(at, slack time.Duration) time.Duration {
	if raised := time.Duration(r.raised.Load()); raised > at && r.Interval > 0 {
		fill := min(float64(r.Limit())*r.Interval, float64(slack)) // the product may exceed a Duration
		return min(at+slack, raised+time.Duration(fill))
	}
	return at + slack
}

// charge settles under one rule, within the debt that it allows.
func (r *rule) charge(key string, at, after time.Duration, was, n int) int {
	if n > was {
		r.charging.Lock()
		defer r.charging.Unlock()
		debt := r.Limit()
		if r.MaxDebt != nil {
			debt = *r.MaxDebt
		}
		room := debt + r.Limit() - r.buckets.Used(r.Bucket(key))
		n = min(n, was+max(room, 0))
	}
	return r.settle(key, at, after, was, n)
}
