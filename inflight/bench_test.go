package inflight_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/recording"
)

// What it costs to be let in and to leave, by how the limit is found.
func BenchmarkAcquire(b *testing.B) {
	for _, c := range []struct {
		name string
		alg  limit.Algorithm
	}{{"fixed", limit.Fixed(64)}, {"auto", newAuto(b)}} {
		b.Run(c.name, func(b *testing.B) {
			l, err := inflight.New(inflight.Config{Algorithm: c.alg})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			ctx := context.Background()
			for b.Loop() {
				p, err := l.Acquire(ctx, 1)
				if err != nil {
					b.Fatal(err)
				}
				p.Release(weir.Success)
			}
		})
	}
}

// What a record of each request costs: beside none, and beside the two looks at the clock that its
// times need.
func BenchmarkRecorder(b *testing.B) {
	for _, name := range []string{"none", "recorder", "clock"} {
		b.Run(name, func(b *testing.B) {
			cfg := inflight.Config{Algorithm: limit.Fixed(64)}
			rec, err := recording.New(recording.Config{})
			if err != nil {
				b.Fatal(err)
			}
			if name == "recorder" {
				cfg.Recorder = rec
			}
			l, err := inflight.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				var at time.Duration
				for pb.Next() {
					p, err := l.Acquire(ctx, 1)
					if err != nil {
						b.Error(err)
						return
					}
					if name == "clock" {
						at = max(at, rec.Now())
						at = max(at, rec.Now())
					}
					p.Release(weir.Success)
				}
			})
		})
	}
}

// What Auto costs for each sample: of a service of 64 workers that take 10 ms, with
// as much in flight as the limit allows; with half of the workers at work; and with
// one failure at once in ten.
func BenchmarkObserve(b *testing.B) {
	const workers, takes = 64, 10 * time.Millisecond
	for _, c := range []struct {
		name     string
		inflight int     // at most
		failing  float64 // share
	}{
		{"busy", 1 << 20, 0},
		{"idle", workers / 2, 0},
		{"failing", 1 << 20, 0.1},
	} {
		b.Run(c.name, func(b *testing.B) {
			a := newAuto(b)
			random := rand.New(rand.NewPCG(1, 2))
			var times [1 << 12]float64
			for i := range times {
				times[i] = random.ExpFloat64()
			}
			now, i := time.Second, 0
			b.ReportAllocs()
			for b.Loop() {
				i++
				n := min(a.Limit(), c.inflight)
				now += takes / time.Duration(min(n, workers))
				took := time.Duration(times[i%len(times)] * float64(takes) * float64(max(n, workers)) / workers)
				s := limit.Sample{Start: now - took, End: now, N: 1, Inflight: n, Outcome: weir.Success}
				if c.failing > 0 && i%int(1/c.failing) == 0 {
					s.Start, s.Outcome = now-took/10, weir.Dropped
				}
				a.Observe(s)
			}
		})
	}
}

func newAuto(b *testing.B) limit.Algorithm {
	b.Helper()
	a, err := limit.NewAuto(limit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return a
}
