// Package heapfloor lets the heap of a small process grow before garbage is collected. A
// proxy keeps little, and allocates much for each request: by Go's default it collects
// garbage each few MiB, at about a tenth of its processor time.
package heapfloor

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	floor    = 64 << 20 // bytes, up to which the heap grows before a collection
	most     = 400      // percent: the bound of the heap's growth, also if little of it is live
	standard = 100      // percent: of Go
	interval = time.Second
)

// percent returns how far a heap may grow before the next collection, in percent of its live
// bytes, as debug.SetGCPercent takes it. From floor on, it is Go's default.
func percent(live uint64) int {
	return int(min(max(100*floor/max(live, 1), standard), most))
}

// Keep adjusts the collector of the process to its live heap until ctx ends, and then restores its
// percentage. If the environment variable GOGC is set, it does nothing. Only one Keep may run in a process.
func Keep(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	before := debug.SetGCPercent(standard)
	defer func() { debug.SetGCPercent(before) }()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for now := standard; ; {
		metrics.Read(live)
		if p := percent(live[0].Value.Uint64()); p != now {
			debug.SetGCPercent(p)
			now = p
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
