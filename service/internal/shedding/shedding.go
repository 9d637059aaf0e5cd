// Package shedding tells when rules of weir serve begin to reject requests for lack of capacity.
package shedding

import (
	"context"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/operator"
	"github.com/weir-go/weir/service/internal/server"
)

// A rule sheds if a least share and number of its requests are rejected between two samples. Shedding is over after calm
// samples without.
const (
	shedShare = 0.01
	shedLeast = 3
	calm      = 10
)

// Watch calls begins when the rules begin to shed, until ctx ends.
func Watch(ctx context.Context, of *server.Server, begins func(what string)) {
	var s samples
	operator.Sample(ctx, func() {
		if s.begins(of.Stats().Rules) {
			begins("shedding")
		}
	})
}

// The zero samples are ready for use.
type samples struct {
	was  map[string]flow // by rule
	left int             // samples until the rules are calm
}

// A flow counts the requests of a rule.
type flow struct{ allowed, rejected uint64 }

// begins takes a sample, and reports whether it is the first in which a rule sheds.
func (s *samples) begins(rules []server.RuleStats) bool {
	sheds, now := false, make(map[string]flow, len(rules))
	for i := range rules {
		r := &rules[i]
		n := flow{allowed: r.Allowed + r.Leases.Granted}
		for _, why := range []weir.Reason{weir.OverLimit, weir.QueueFull, weir.Overdue, weir.TooLate} {
			n.rejected += r.Denied[why] + r.Leases.Refused[why]
		}
		now[r.Rule.Name] = n
		was := s.was[r.Rule.Name]
		allowed, rejected := operator.Increase(n.allowed, was.allowed), operator.Increase(n.rejected, was.rejected)
		sheds = sheds || s.was != nil && rejected >= shedLeast && float64(rejected) >= shedShare*float64(allowed+rejected)
	}
	begins := sheds && s.left == 0
	s.was, s.left = now, max(s.left-1, 0)
	if sheds {
		s.left = calm
	}
	return begins
}
