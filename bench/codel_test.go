package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	original "github.com/bohde/codel"

	"github.com/weir-go/weir/codel"
)

// A codelQueue is a Lock or a PLock, at one priority.
type codelQueue struct {
	acquire func(context.Context) error
	release func()
	dropped error
}

// codelQueues returns the locks of both packages.
func codelQueues(pending, outstanding int) map[string]codelQueue {
	const target = 5 * time.Millisecond
	theirs := original.Options{MaxPending: pending, MaxOutstanding: outstanding, TargetLatency: target}
	ours := codel.Options{MaxPending: pending, MaxOutstanding: outstanding, TargetLatency: target}
	lock, plock := original.New(theirs), original.NewPriority(theirs)
	ourLock, ourPLock := codel.New(ours), codel.NewPriority(ours)
	return map[string]codelQueue{
		"bohde":      {lock.Acquire, lock.Release, original.Dropped},
		"weir":       {ourLock.Acquire, ourLock.Release, codel.Dropped},
		"bohde-prio": {func(ctx context.Context) error { return plock.Acquire(ctx, 7) }, plock.Release, original.Dropped},
		"weir-prio":  {func(ctx context.Context) error { return ourPLock.Acquire(ctx, 7) }, ourPLock.Release, codel.Dropped},
	}
}

var codelOrder = []string{"weir", "bohde", "weir-prio", "bohde-prio"}

// A caller finds all places taken, and gets one that a goroutine gives back meanwhile: the
// benchmark LockBlocked of github.com/bohde/codel. Each step starts a goroutine, which is a part
// of the time and of the allocations.
func BenchmarkCodelBlocked(b *testing.B) {
	const outstanding = 4
	for _, name := range codelOrder {
		b.Run(name, func(b *testing.B) {
			q, ctx := codelQueues(1, outstanding)[name], context.Background()
			for range outstanding {
				testrig.Must(b, q.acquire(ctx))
			}
			b.ReportAllocs()
			for b.Loop() {
				go q.release()
				testrig.Must(b, q.acquire(ctx))
			}
		})
	}
}

// Two callers hand one place to each other, so that each of them waits each time.
func BenchmarkCodelHandOver(b *testing.B) {
	for _, name := range codelOrder {
		b.Run(name, func(b *testing.B) {
			q, ctx := codelQueues(8, 1)[name], context.Background()
			b.ReportAllocs()
			b.SetParallelism(2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := q.acquire(ctx); errors.Is(err, q.dropped) {
						continue
					} else if err != nil {
						b.Error(err)
						return
					}
					q.release()
				}
			})
		})
	}
}
