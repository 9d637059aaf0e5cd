package bench

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"go.uber.org/ratelimit"
	xrate "golang.org/x/time/rate"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/rate"
)

// A call asks a limiter once, and reports whether it said yes.
type call func() bool

// A rateContender makes a new limiter that says yes always, or one that is
// exhausted for an hour, and returns the call to measure.
type rateContender struct {
	name string
	make func(b *testing.B, yes bool) call
}

// Limiters that always say yes allow highRate events a second, twenty times
// more than can be asked for, and slack as many ahead of the clock.
const (
	highRate = 1e9
	slack    = 1e8
)

func newWeirRate(yes bool) *rate.Limiter {
	if yes {
		return rate.NewLimiter(highRate, slack)
	}
	l := rate.NewLimiter(rate.Every(time.Hour), 1)
	l.Allow()
	return l
}

func newXRate(yes bool) *xrate.Limiter {
	if yes {
		return xrate.NewLimiter(highRate, slack)
	}
	l := xrate.NewLimiter(xrate.Every(time.Hour), 1)
	l.Allow()
	return l
}

func newSmooth(yes bool) ratelimiter.RateLimiter[any] {
	if yes {
		return ratelimiter.NewSmooth[any](highRate, time.Second)
	}
	l := ratelimiter.NewSmooth[any](1, time.Hour)
	l.TryAcquirePermit()
	return l
}

func newBursty(yes bool) ratelimiter.RateLimiter[any] {
	if yes {
		return ratelimiter.NewBursty[any](highRate, time.Second)
	}
	l := ratelimiter.NewBursty[any](1, time.Hour)
	l.TryAcquirePermit()
	return l
}

// newThrottled tries its swaps until one succeeds: by default it gives up, with
// an error, after ten.
func newThrottled(interval time.Duration, burst int) *throttled.GCRARateLimiterCtx {
	l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(0)), throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, interval),
		MaxBurst: burst - 1,
	}))
	l.SetMaxCASAttemptsLimit(math.MaxInt)
	return l
}

func throttledCall(_ *testing.B, yes bool) call {
	l, ctx := newThrottled(time.Second/highRate, slack), context.Background()
	if !yes {
		l = newThrottled(time.Hour, 1)
		l.RateLimitCtx(ctx, "key", 1)
	}
	return func() bool {
		limited, _, err := l.RateLimitCtx(ctx, "key", 1)
		return !limited && err == nil
	}
}

// goLimiterCall has one window that outlasts the benchmark, because after each
// a store refills interval/tokens tokens, with the interval in nanoseconds: at
// 10⁹ a second, that is one.
func goLimiterCall(b *testing.B, yes bool) call {
	ctx, tokens := context.Background(), uint64(1)
	if yes {
		tokens = 1e12
	}
	s := must(memorystore.New(&memorystore.Config{Tokens: tokens, Interval: time.Hour}))
	b.Cleanup(func() { s.Close(ctx) })
	if !yes {
		s.Take(ctx, "key")
	}
	return func() bool {
		_, _, _, ok, err := s.Take(ctx, "key")
		return ok && err == nil
	}
}

// clock is a limiter that only reads the clock: the least that any can cost.
func clock(_ *testing.B, yes bool) call {
	epoch, after := time.Now(), time.Duration(math.MaxInt64)
	if yes {
		after = 0
	}
	return func() bool { return time.Since(epoch) > after }
}

// A bareGCRA is the least that decides by rate: the theoretical arrival time,
// in nanoseconds since the epoch.
type bareGCRA struct {
	epoch           time.Time
	tat             atomic.Int64
	interval, burst int64
}

func (l *bareGCRA) allow() bool {
	now := int64(time.Since(l.epoch))
	for {
		tat := l.tat.Load()
		next := max(tat, now) + l.interval
		if next-now > l.burst {
			return false
		}
		if l.tat.CompareAndSwap(tat, next) {
			return true
		}
	}
}

func newBareGCRA(_ *testing.B, yes bool) call {
	l := &bareGCRA{epoch: time.Now(), interval: 1e9 / highRate, burst: 1e9 / highRate * slack}
	if !yes {
		l.interval, l.burst = int64(time.Hour), int64(time.Hour)
		l.allow()
	}
	return l.allow
}

var allowContenders = []rateContender{
	{"weir", func(_ *testing.B, yes bool) call { return newWeirRate(yes).Allow }},
	{"xtime", func(_ *testing.B, yes bool) call { return newXRate(yes).Allow }},
	{"failsafe-smooth", func(_ *testing.B, yes bool) call { return newSmooth(yes).TryAcquirePermit }},
	{"failsafe-bursty", func(_ *testing.B, yes bool) call { return newBursty(yes).TryAcquirePermit }},
	{"throttled", throttledCall},
	{"go-limiter", goLimiterCall},
	{"floor-gcra", newBareGCRA},
	{"floor-clock", clock},
}

var takeContenders = []rateContender{
	{"weir", func(_ *testing.B, yes bool) call {
		l := newWeirRate(yes)
		return func() bool { return l.Take(1).OK }
	}},
}

var reserveContenders = []rateContender{
	{"weir", func(_ *testing.B, yes bool) call {
		l := newWeirRate(yes)
		return func() bool { return l.Reserve().OK() }
	}},
	{"xtime", func(_ *testing.B, yes bool) call {
		l := newXRate(yes)
		return func() bool { return l.Reserve().OK() }
	}},
	{"failsafe-smooth", func(_ *testing.B, yes bool) call {
		l := newSmooth(yes)
		return func() bool { return l.ReservePermit() == 0 }
	}},
	{"failsafe-bursty", func(_ *testing.B, yes bool) call {
		l := newBursty(yes)
		return func() bool { return l.ReservePermit() == 0 }
	}},
}

// soon returns a context that ends after the benchmark, and before an exhausted
// limiter admits a caller.
func soon(b *testing.B) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	b.Cleanup(cancel)
	return ctx
}

// Callers that would wait beyond their deadline are rejected at once.
var waitContenders = []rateContender{
	{"weir", func(b *testing.B, yes bool) call {
		l, ctx := newWeirRate(yes), soon(b)
		if r, ok := errors.AsType[*weir.Rejection](l.Wait(ctx)); ok == yes || ok && r.Reason != weir.TooLate {
			b.Fatal("unexpected: ", r)
		}
		return func() bool { return l.Wait(ctx) == nil }
	}},
	{"xtime", func(b *testing.B, yes bool) call {
		l, ctx := newXRate(yes), soon(b)
		return func() bool { return l.Wait(ctx) == nil }
	}},
}

// Uber's Take knows no refusal. It is measured where it need not block, too.
var takeUber = []rateContender{
	{"uber", func(*testing.B, bool) call {
		l := ratelimit.New(highRate, ratelimit.WithSlack(slack))
		return func() bool { return !l.Take().IsZero() }
	}},
	{"uber-unlimited", func(*testing.B, bool) call {
		l := ratelimit.NewUnlimited()
		return func() bool { return !l.Take().IsZero() }
	}},
}

func BenchmarkRate(b *testing.B) {
	for _, bb := range []struct {
		name       string
		yes        bool
		contenders []rateContender
	}{
		{"AllowAdmitted", true, allowContenders},
		{"AllowDenied", false, allowContenders},
		{"TakeAdmitted", true, takeContenders},
		{"TakeDenied", false, takeContenders},
		{"ReserveAdmitted", true, reserveContenders},
		{"WaitAdmitted", true, append(waitContenders, takeUber...)},
		{"WaitRefused", false, waitContenders},
	} {
		for _, c := range bb.contenders {
			b.Run(bb.name+"/"+c.name, func(b *testing.B) {
				ask := c.make(b, bb.yes)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if ask() != bb.yes {
							b.Errorf("said %v", !bb.yes)
							return
						}
					}
				})
			})
		}
	}
}
