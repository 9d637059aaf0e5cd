package counts

import (
	"math/bits"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Mark identifies a rule and its state, which began to count at an instant. A grant has the sum of the marks of the rules
// that gave, which does not depend on their order.
func Mark(r *rules.Rule, since time.Duration) uint64 {
	return bits.RotateLeft64((r.NameHash^uint64(since))*0x9e37_79b9_7f4a_7c15, 32) * 0x9e37_79b9_7f4a_7c15
}

// MaxShadows bounds the shadow rules of a key that hear of settlements. Each may have
// given or not, which doubles the sums that are compared with that of the grant.
const MaxShadows = 4

// MaxSums bounds the Sums of a match.
const MaxSums = 1 << MaxShadows

// Give adds a rule, whose answer is the last one, to the grant if it allows; shadows counts the shadow rules of the request.
func (a *Ask) Give(r *rules.Rule, since time.Duration, shadows *int) {
	if r.Mode == config.Shadow {
		*shadows++
	}
	if a.V.Answers[len(a.V.Answers)-1].OK && *shadows <= MaxShadows {
		a.V.Grant.Rules += Mark(r, since)
	}
}

// Sums appends what Grant.Rules can be for a grant of these rules. Bit i of a sum's index
// is set if the shadow rule i gave.
func Sums(m *rules.Match, mark func(*rules.Rule) uint64, all []uint64) []uint64 {
	all = append(all, 0)
	for _, r := range m.Rated {
		if r.Mode != config.Shadow {
			all[0] += mark(r)
		}
	}
	for _, r := range m.Rated {
		if r.Mode == config.Shadow && len(all) < MaxSums {
			for _, sum := range all {
				all = append(all, sum+mark(r))
			}
		}
	}
	return all
}

// Settle charges under each rule that gave; charge returns what the grant has cost there. Bit i of
// gave is set if the shadow rule i gave.
func Settle(m *rules.Match, g decider.Grant, gave, n int, charge func(*rules.Rule) (int, error)) (decider.Settled, error) {
	done, charged := decider.Settled{Was: g.N, Charged: n}, false
	for _, r := range m.Rated {
		shadow := r.Mode == config.Shadow
		took := !shadow || gave&1 != 0
		if shadow {
			gave >>= 1
		}
		if !took {
			continue
		}
		c, err := charge(r)
		if err != nil {
			return done, err
		}
		if !shadow && (!charged || c > done.Charged) {
			done.Charged, charged = c, true
		}
	}
	return done, nil
}

// MaxDebt returns the tokens that a bucket of a rule may owe.
func MaxDebt(r *rules.Rule) int {
	if r.MaxDebt != nil {
		return *r.MaxDebt
	}
	return r.Limit()
}
