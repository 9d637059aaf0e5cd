package limit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

const quick = 5 * time.Millisecond

// As long as requests are quick on average, a queue in the service is not shortened: by
// Little's law, throughput × QuickLatency requests are in flight, and four times what the
// service can work at, at most. Slow work keeps its limit.
func TestAutoQuickLatency(t *testing.T) {
	for _, tt := range []struct {
		name      string
		quick     time.Duration
		servers   int
		mean      time.Duration
		shape     string
		low, high float64 // of the mean limit
	}{
		{"a queue for quick work", 3 * time.Millisecond, 10, time.Millisecond, "constant", 24, 33},
		{"a queue for quick work, exponential", 3 * time.Millisecond, 10, time.Millisecond, "exponential", 24, 45},
		{"four times what works", 4 * quick, 10, time.Millisecond, "constant", 32, 57},
		{"four times what works, exponential", 4 * quick, 10, time.Millisecond, "exponential", 22, 57},
		{"no queue for quick work", 0, 10, time.Millisecond, "constant", 9.5, 15},
		{"as quick as that without a queue", quick, 10, quick, "constant", 9.5, 15},
		{"slow work", quick, 20, 50 * time.Millisecond, "exponential", 19, 36},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: tt.quick}, func(t *testing.T, a tuner) {
				p := newPlant(a, tt.servers, tt.mean)
				p.shape = tt.shape
				p.last(40*time.Second).wantMean(t, 40*time.Second, tt.low, tt.high)
			})
		})
	}
}

// A service may lose throughput by a queue, though its work is quick, as workers that
// contend for a lock do. Then there is none, but for trials that become rare.
func TestAutoQuickLatencyLosesNoThroughput(t *testing.T) {
	const knee, took = 8, 400 * time.Microsecond
	for _, tt := range []struct {
		quick time.Duration
		shape string
		power float64 // of the time of work, beyond the knee
	}{{quick, "constant", 1}, {quick, "exponential", 0.4}, {quick / 5, "constant", 1}, {quick / 5, "exponential", 1}, {quick / 5, "exponential", 0.4}} {
		t.Run(fmt.Sprintf("%v, %s, %v", tt.quick, tt.shape, tt.power), func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: tt.quick}, func(t *testing.T, a tuner) {
				p := newPlant(a, knee, took)
				p.shape = tt.shape
				p.slower = func() float64 { return math.Pow(max(1, float64(p.active)/knee), tt.power) }
				p.last(3 * time.Minute)
				p.wantThroughput(t, time.Minute, 0.8)
			})
		})
	}
}

// Several limiters share the queue that quick work may have.
func TestAutoQuickLatencyFleet(t *testing.T) {
	for _, epoch := range epochs() {
		t.Run(epoch.String(), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 4, 10, func(int) time.Duration { return epoch })
			f.mean, f.shape = time.Millisecond, "exponential"
			for i := range f.all {
				f.all[i] = auto(t, limit.Config{QuickLatency: quick})
				f.all[i].SetEpoch(epoch)
			}
			f.average(time.Minute)
			if sum := f.average(time.Minute); sum < 30 || sum > 100 {
				t.Errorf("limits of %.1f: want 30 to 100: with 50, work takes %v", sum, quick)
			}
		})
	}
}

// Several limiters do not find out that their queue costs throughput. They lose that with
// which work takes QuickLatency, or what they lose without it, and no more.
func TestAutoQuickLatencyBoundsLoss(t *testing.T) {
	for _, tt := range []struct {
		limiters, knee int
		took           time.Duration
		power          float64 // of the time of work, beyond the knee
	}{
		{4, 8, brief * 2 / 5, 1}, {4, 8, brief * 2 / 5, 0.4}, {10, 8, brief * 2 / 5, 1}, {10, 8, brief * 2 / 5, 0.4}, {4, 8, brief / 10, 1}, {1, 1, brief / 2, 1},
	} {
		t.Run(fmt.Sprintf("%d, %d workers of %v, %v", tt.limiters, tt.knee, tt.took, tt.power), func(t *testing.T) {
			serve := func(quick, epoch time.Duration) float64 {
				f := newFleet(t, tt.limiters, tt.knee, func(int) time.Duration { return epoch })
				f.mean, f.shape, f.power = tt.took, "exponential", tt.power
				for i := range f.all {
					f.all[i] = auto(t, limit.Config{QuickLatency: quick})
					f.all[i].SetEpoch(epoch)
				}
				f.average(time.Minute)
				done := f.done
				f.average(time.Minute)
				return float64(f.done-done) / 60
			}
			for _, epoch := range epochs() {
				// N units take took × (N/knee)^(1+power).
				units := float64(tt.knee) * math.Pow(float64(brief)/float64(tt.took), 1/(1+tt.power))
				got, without, want := serve(brief, epoch), serve(0, epoch), units/brief.Seconds()
				t.Logf("%.0f a second; %.0f without QuickLatency; %.0f with a latency of %v", got, without, want, brief)
				if want = min(want, without); got < 0.8*want {
					t.Errorf("%.0f a second: want %.0f", got, 0.8*want)
				}
			}
		})
	}
}

// A service that becomes slower ends the queue, and requests that fail lower the limit as
// they always do.
func TestAutoQuickLatencyEnds(t *testing.T) {
	eachEpoch(t, limit.Config{QuickLatency: quick}, func(t *testing.T, a tuner) {
		p := newPlant(a, 10, time.Millisecond)
		p.last(20*time.Second).wantMean(t, 20*time.Second, 30, 57)
		p.mean = 50 * time.Millisecond
		p.last(64*time.Second).wantMean(t, 32*time.Second, 9, 17)
		p.mean = time.Millisecond
		p.last(64*time.Second).wantMean(t, 20*time.Second, 30, 57)
		p.outcome = func(s limit.Sample) weir.Outcome {
			if s.Inflight > 20 {
				return weir.Dropped
			}
			return weir.Success
		}
		p.last(20*time.Second).wantMean(t, 20*time.Second, 10, 24)
	})
}
