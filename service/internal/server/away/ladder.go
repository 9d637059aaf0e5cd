package away

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Ladder counts decisions by their Step, and samples degraded ones.
type Ladder struct {
	steps   [decider.StepsCount]atomic.Uint64
	sampled atomic.Int64 // when OnDegraded was last called, on the node's clock
	// OnDegraded, if not nil, is called with a verdict that is degraded: at most once a second.
	OnDegraded func(key string, v *decider.Verdict)
}

// Note counts a decision.
func (l *Ladder) Note(key string, v *decider.Verdict) {
	l.Count(v.Step)
	if l.OnDegraded == nil || !v.Step.Degraded() {
		return
	}
	if last := l.sampled.Load(); last == 0 || v.At-time.Duration(last) > time.Second {
		if l.sampled.CompareAndSwap(last, max(int64(v.At), 1)) {
			l.OnDegraded(key, v)
		}
	}
}

// Count counts a decision by its Step alone.
func (l *Ladder) Count(step decider.Step) { l.steps[step].Add(1) }

// Load returns the counts.
func (l *Ladder) Load() (n [decider.StepsCount]uint64) {
	for i := range n {
		n[i] = l.steps[i].Load()
	}
	return n
}
