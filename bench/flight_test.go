package bench

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir/flight"
)

// A fetch asks for the value of a key, which work makes, and reports whether it
// got it.
type fetch func(ctx context.Context, key string) bool

// A flightContender makes a group that runs work.
type flightContender struct {
	name string
	make func(work func()) fetch
}

// fetched is a pointer, so that no contender pays for putting it in an any.
var fetched = new(int)

func weirFlight(work func()) fetch {
	g := new(flight.Group[string, *int])
	fn := func(context.Context) (*int, error) { work(); return fetched, nil }
	return func(ctx context.Context, key string) bool {
		v, _, err := g.Do(ctx, key, fn)
		return v == fetched && err == nil
	}
}

func xFlight(work func()) fetch {
	g := new(singleflight.Group)
	fn := func() (any, error) { work(); return fetched, nil }
	return func(_ context.Context, key string) bool {
		v, err, _ := g.Do(key, fn)
		return v.(*int) == fetched && err == nil
	}
}

// xFlightChan is the usual way to leave a singleflight.Group when a context
// ends. The work continues without callers.
func xFlightChan(work func()) fetch {
	g := new(singleflight.Group)
	fn := func() (any, error) { work(); return fetched, nil }
	return func(ctx context.Context, key string) bool {
		select {
		case r := <-g.DoChan(key, fn):
			return r.Val.(*int) == fetched && r.Err == nil
		case <-ctx.Done():
			return false
		}
	}
}

// xFlightOwn also gives the work its own context, so that the first caller
// cannot cancel it for the others. The work continues without callers.
func xFlightOwn(work func()) fetch {
	g := new(singleflight.Group)
	return func(ctx context.Context, key string) bool {
		select {
		case r := <-g.DoChan(key, func() (any, error) {
			_, cancel := context.WithCancel(context.WithoutCancel(ctx))
			defer cancel()
			work()
			return fetched, nil
		}):
			return r.Val.(*int) == fetched && r.Err == nil
		case <-ctx.Done():
			return false
		}
	}
}

var (
	staying = []flightContender{{"weir", weirFlight}, {"xsync", xFlight}}
	leaving = []flightContender{{"weir", weirFlight}, {"xsync-chan", xFlightChan}, {"xsync-chan-own", xFlightOwn}}
)

// keyCount is how many keys the callers go through.
const keyCount = 4096

// Alone: no two callers ask for the same key at a time. Keys: they go through
// 4096 keys, and seldom meet. Same: 64 goroutines ask for one key, which takes
// others a turn to make.
func BenchmarkFlight(b *testing.B) {
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, bb := range []struct {
		name       string
		ctx        context.Context
		contenders []flightContender
		measure    func(*testing.B, context.Context, func(func()) fetch)
	}{
		{"Alone", context.Background(), staying, flightAlone},
		{"AloneCancellable", cancellable, leaving, flightAlone},
		{"Keys", context.Background(), staying, flightKeys},
		{"KeysCancellable", cancellable, leaving, flightKeys},
		{"Same64", context.Background(), staying, flightSame},
		{"Same64Cancellable", cancellable, leaving, flightSame},
	} {
		for _, c := range bb.contenders {
			b.Run(bb.name+"/"+c.name, func(b *testing.B) { bb.measure(b, bb.ctx, c.make) })
		}
	}
}

func nothing() {}

func flightAlone(b *testing.B, ctx context.Context, group func(func()) fetch) {
	get, n := group(nothing), atomic.Int64{}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		key := "user:" + strconv.FormatInt(n.Add(1), 10)
		for pb.Next() {
			if !get(ctx, key) {
				b.Error("no value")
				return
			}
		}
	})
}

func flightKeys(b *testing.B, ctx context.Context, group func(func()) fetch) {
	get, n := group(nothing), atomic.Int64{}
	keys := make([]string, keyCount)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := n.Add(1) * keyCount / 3; pb.Next(); i++ {
			if !get(ctx, keys[i%keyCount]) {
				b.Error("no value")
				return
			}
		}
	})
}

func flightSame(b *testing.B, ctx context.Context, group func(func()) fetch) {
	runs := atomic.Int64{}
	get := group(func() { runs.Add(1); runtime.Gosched() })
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !get(ctx, "user:1") {
				b.Error("no value")
				return
			}
		}
	})
	b.ReportMetric(float64(runs.Load())/float64(b.N), "runs/op")
}
