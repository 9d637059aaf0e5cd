package server

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
)

// An Explanation is what a key would get, rule by rule; nothing is taken.
type Explanation struct {
	Key string
	// Allowed is whether one token could be had now, and by what Reason not.
	Allowed    bool
	Reason     weir.Reason
	RetryAfter time.Duration
	Rules      []RuleState
}

// A RuleState is what a rule that counts for a key knows of it.
type RuleState struct {
	Rule *Rule
	// Remaining and Used are tokens of Rule.Limit; ResetAfter is when all are back.
	// They are zero without a rate.
	Remaining, Used int
	ResetAfter      time.Duration
	Allowed         bool          // one token could be had now
	RetryAfter      time.Duration // if not: when, standing at the end of the line
	Waiting         int           // requests in line
	Denied          uint64        // requests of the key that were denied since it began to use tokens of its first rule
	Lease           *LeaseState   // nil without leases
}

// Explain tells what a key would get, and why.
func (s *Server) Explain(key string) Explanation {
	x := Explanation{Key: key, Allowed: true}
	set := s.rules.Load()
	rules := set.find(key).rules
	e := s.keys.get(key)
	if len(rules) == 0 && set.config.Unmatched == "deny" {
		x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, weir.Never
	}
	for _, r := range rules {
		st := RuleState{Rule: r, Allowed: true, Waiting: r.live.lines.length(r.bucket(key)), Lease: r.live.gates.state(r, key)}
		if r.Quoted() {
			d := r.take(key, r.live.buckets.number(r.bucket(key)), time.Now(), 0, 0)
			st.Allowed, st.Remaining, st.ResetAfter, st.RetryAfter = d.OK, d.Remaining, d.ResetAfter, d.RetryAfter
			st.Used = r.live.buckets.used(r.bucket(key))
			if e != nil && st.Used > 0 {
				st.Denied = uint64(e.denials.Load())
			}
			if !d.OK && r.Mode != config.Shadow && x.Allowed {
				x.Allowed, x.Reason, x.RetryAfter = false, weir.OverRate, d.RetryAfter
			}
		}
		x.Rules = append(x.Rules, st)
	}
	return x
}
