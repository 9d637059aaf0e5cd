package rules

import (
	"sync/atomic"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A Tally counts requests by their outcome under one rule. A rule of a later Set that continues the rule has the same.
type Tally struct {
	Allowed striped // written by every request

	Denied                    waiting.Refusals
	Shadowed                  atomic.Uint64 // requests that only the shadow mode allowed
	TrialAllowed, TrialDenied atomic.Uint64 // what the candidate would have done
	Waits                     waiting.Stats
}

// striped is a counter on several cache lines, so that goroutines that count
// requests for different keys do not share one.
type striped [8]struct {
	n atomic.Uint64
	_ [56]byte
}

// Add counts a request of a key with a fingerprint.
func (s *striped) Add(print uint64) { s[print%uint64(len(s))].n.Add(1) }

// Sum returns the count.
func (s *striped) Sum() (n uint64) {
	for i := range s {
		n += s[i].n.Load()
	}
	return n
}

// Continues reports whether a rule can go on with the buckets of the rule that it replaces, which may be nil.
func (r *Rule) Continues(was *Rule) bool {
	return was != nil && was.Per == r.Per && was.Rated() == r.Rated() && SameKind(was.Quota, r.Quota)
}

// SameKind reports whether the counts of one quota can be kept under the other.
func SameKind(a, b config.Quota) bool {
	return a.Algorithm == b.Algorithm || !a.Algorithm.Windows() && !b.Algorithm.Windows()
}
