// Package bench measures weir beside the obvious alternatives, in one run. It
// is a separate module, so that users of weir do not depend on them.
package bench

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/bohde/codel"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"golang.org/x/sync/semaphore"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// A contender admits one at a time and gives back what it admitted.
type contender interface {
	admit(context.Context) (leave func(), ok bool) // not measured: it may allocate
	cycle(context.Context) bool                    // admit without waiting, and leave
	try() bool                                     // admit, or refuse at once
}

type weirLimiter struct{ l *inflight.Limiter }

func newWeir(b *testing.B, alg limit.Algorithm) contender {
	l, err := inflight.New(inflight.Config{Algorithm: alg})
	testrig.Must(b, err)
	return weirLimiter{l}
}

func (w weirLimiter) cycle(ctx context.Context) bool {
	p, err := w.l.Acquire(ctx, 1)
	if err != nil {
		return false
	}
	p.Release(weir.Success)
	return true
}

func (w weirLimiter) try() bool {
	p, ok := w.l.TryAcquire(context.Background(), 1)
	p.Release(weir.Ignored)
	return ok
}

func (w weirLimiter) admit(ctx context.Context) (func(), bool) {
	p, err := w.l.Acquire(ctx, 1)
	return func() { p.Release(weir.Success) }, err == nil
}

type xsync struct{ s *semaphore.Weighted }

func (x xsync) cycle(ctx context.Context) bool {
	if x.s.Acquire(ctx, 1) != nil {
		return false
	}
	x.s.Release(1)
	return true
}

func (x xsync) try() bool {
	ok := x.s.TryAcquire(1)
	if ok {
		x.s.Release(1)
	}
	return ok
}

func (x xsync) admit(ctx context.Context) (func(), bool) {
	return func() { x.s.Release(1) }, x.s.Acquire(ctx, 1) == nil
}

type channel chan struct{}

func (c channel) cycle(ctx context.Context) bool {
	select {
	case c <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	<-c
	return true
}

func (c channel) try() bool {
	select {
	case c <- struct{}{}:
		<-c
		return true
	default:
		return false
	}
}

func (c channel) admit(context.Context) (func(), bool) {
	c <- struct{}{}
	return func() { <-c }, true
}

// codelLock is github.com/bohde/codel with a queue of none, so that it rejects at
// once.
type codelLock struct{ l *codel.Lock }

func newCodel(n int) contender {
	return codelLock{codel.New(codel.Options{MaxOutstanding: n, MaxPending: 0, TargetLatency: 5 * time.Millisecond})}
}

func (c codelLock) cycle(ctx context.Context) bool {
	if c.l.Acquire(ctx) != nil {
		return false
	}
	c.l.Release()
	return true
}

func (c codelLock) try() bool { return c.cycle(context.Background()) }

func (c codelLock) admit(ctx context.Context) (func(), bool) {
	return c.l.Release, c.l.Acquire(ctx) == nil
}

// failsafe is failsafe-go's adaptive limiter, with its defaults otherwise.
type failsafe struct {
	l adaptivelimiter.AdaptiveLimiter[any]
}

func newFailsafe(n int) contender {
	return failsafe{adaptivelimiter.NewBuilder[any]().WithLimits(uint(n), uint(n), uint(n)).Build()}
}

func (f failsafe) cycle(ctx context.Context) bool {
	p, err := f.l.AcquirePermit(ctx)
	if err != nil {
		return false
	}
	p.Record()
	return true
}

func (f failsafe) try() bool {
	p, ok := f.l.TryAcquirePermit()
	if ok {
		p.Drop()
	}
	return ok
}

func (f failsafe) admit(ctx context.Context) (func(), bool) {
	p, err := f.l.AcquirePermit(ctx)
	if err != nil {
		return nil, false
	}
	return p.Record, true
}

// contenders returns limiters of limit n. The adaptive ones process each sample,
// but their bounds keep the limit at n.
func contenders(b *testing.B, n int) map[string]contender {
	auto, err := limit.NewAuto(limit.Config{Initial: n})
	testrig.Must(b, err)
	aimd, err := limit.NewAIMD(limit.Config{Initial: n, Max: n}, 0)
	testrig.Must(b, err)
	vegas, err := limit.NewVegas(limit.Config{Min: n, Max: n})
	testrig.Must(b, err)
	return map[string]contender{
		"weir-fixed":        newWeir(b, limit.Fixed(n)),
		"weir-auto":         newWeir(b, auto),
		"weir-aimd":         newWeir(b, aimd),
		"weir-vegas":        newWeir(b, vegas),
		"xsync":             xsync{semaphore.NewWeighted(int64(n))},
		"channel":           make(channel, n),
		"codel":             newCodel(n),
		"failsafe-adaptive": newFailsafe(n),
	}
}

var order = []string{"weir-fixed", "weir-auto", "weir-aimd", "weir-vegas", "xsync", "channel", "codel", "failsafe-adaptive"}

func BenchmarkAdmit(b *testing.B) {
	all := contenders(b, 64)
	for _, name := range order {
		b.Run(name, func(b *testing.B) {
			c := all[name]
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					if !c.cycle(ctx) {
						b.Error("refused")
						return
					}
				}
			})
		})
	}
}

func BenchmarkRefuse(b *testing.B) {
	all := contenders(b, 1)
	for _, name := range order {
		b.Run(name, func(b *testing.B) {
			c := all[name]
			leave, ok := c.admit(context.Background())
			if !ok {
				b.Fatal("the first one is refused")
			}
			defer leave()
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if c.try() {
						b.Error("admitted")
						return
					}
				}
			})
		})
	}
}
