package server

import (
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A ladder counts decisions by their Step, and samples degraded ones.
type ladder struct {
	steps   [decider.StepsCount]atomic.Uint64
	sampled atomic.Int64 // when onDegraded was last called, on the node's clock
	// onDegraded, if not nil, is called with a verdict that is degraded: at most once a second.
	onDegraded func(key string, v *decider.Verdict)
}

// note counts a decision.
func (l *ladder) note(key string, v *decider.Verdict) {
	l.steps[v.Step].Add(1)
	if l.onDegraded == nil || !v.Step.Degraded() {
		return
	}
	if last := l.sampled.Load(); last == 0 || v.At-time.Duration(last) > time.Second {
		if l.sampled.CompareAndSwap(last, max(int64(v.At), 1)) {
			l.onDegraded(key, v)
		}
	}
}

// load returns the counts.
func (l *ladder) load() (n [decider.StepsCount]uint64) {
	for i := range n {
		n[i] = l.steps[i].Load()
	}
	return n
}
