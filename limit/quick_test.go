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
// Little's law, throughput × QuickLatency requests are in flight. Slow work keeps its limit.
func TestAutoQuickLatency(t *testing.T) {
	for _, tt := range []struct {
		name      string
		quick     time.Duration
		servers   int
		mean      time.Duration
		shape     string
		low, high float64 // of the mean limit
	}{
		{"a queue for quick work", quick, 10, time.Millisecond, "constant", 40, 55},
		{"a queue for quick work, exponential", quick, 10, time.Millisecond, "exponential", 40, 75},
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
		shape string
		power float64 // of the time of work, beyond the knee
	}{{"constant", 1}, {"exponential", 0.4}} {
		t.Run(fmt.Sprintf("%s, %v", tt.shape, tt.power), func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: quick}, func(t *testing.T, a tuner) {
				p := newPlant(a, knee, took)
				p.shape = tt.shape
				p.slower = func() float64 { return math.Pow(max(1, float64(p.active)/knee), tt.power) }
				p.last(3 * time.Minute)
				before := p.done
				p.wantMean(t, time.Minute, 0.9*knee, 2*knee)
				use := float64(p.done-before) * took.Seconds() / knee / 60
				t.Logf("%.2f of the throughput", use)
				if use < 0.8 {
					t.Errorf("%.2f of the throughput: want 0.8", use)
				}
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

// A service that becomes slower ends the queue, and requests that fail lower the limit as
// they always do.
func TestAutoQuickLatencyEnds(t *testing.T) {
	eachEpoch(t, limit.Config{QuickLatency: quick}, func(t *testing.T, a tuner) {
		p := newPlant(a, 10, time.Millisecond)
		p.last(20*time.Second).wantMean(t, 20*time.Second, 40, 55)
		p.mean = 50 * time.Millisecond
		p.last(64*time.Second).wantMean(t, 32*time.Second, 9, 17)
		p.mean = time.Millisecond
		p.last(64*time.Second).wantMean(t, 20*time.Second, 40, 55)
		p.outcome = func(s limit.Sample) weir.Outcome {
			if s.Inflight > 20 {
				return weir.Dropped
			}
			return weir.Success
		}
		p.last(20*time.Second).wantMean(t, 20*time.Second, 10, 24)
	})
}
