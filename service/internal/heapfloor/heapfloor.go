// Package heapfloor lets the heap of a small process grow before garbage is collected. A
// proxy keeps little, and allocates much for each request: by Go's default it collects
// garbage each few MiB, at about a tenth of its processor time.
package heapfloor

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	floor    = 64 << 20 // bytes by which the heap may grow before a collection, if that is more than by Go's default
	most     = 2000     // percent: the bound of the growth, also if little of the heap is live
	standard = 100      // percent: of Go
	interval = time.Second
)

// percent returns how far a heap may grow before the next collection, in percent of its live
// bytes, as debug.SetGCPercent takes it. From floor on, it is Go's default.
func percent(live uint64) int {
	return int(min(max(100*floor/max(live, 1), standard), most))
}

// Keep adjusts the collector of the process to the live heap, after each collection and each second,
// until ctx ends. Then it restores the percentage. A limit of the memory (GOMEMLIMIT) still holds. If the
// environment variable GOGC is set, Keep does nothing. Only one Keep may run in a process.
func Keep(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	before := debug.SetGCPercent(standard)
	defer func() { debug.SetGCPercent(before) }()
	keep(ctx, func(percent int) { debug.SetGCPercent(percent) })
}

// keep calls set with each new percentage, until ctx ends. The first one differs from Go's.
func keep(ctx context.Context, set func(percent int)) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	collected := make(chan struct{}, 1)
	notify(collected)
	for now := standard; ; {
		metrics.Read(live)
		if p := percent(live[0].Value.Uint64()); p != now {
			set(p)
			now = p
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
			notify(collected)
		case <-tick.C: // an object that is allocated while a collection runs is not of that one
		}
	}
}

// notify fills the channel, which has room for one, after the next collection. The collector
// calls the cleanup because nothing refers to the object.
func notify(collected chan<- struct{}) {
	runtime.AddCleanup(new(*byte), func(c chan<- struct{}) { c <- struct{}{} }, collected)
}
