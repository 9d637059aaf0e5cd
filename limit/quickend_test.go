package limit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// brief is twice the default of weir proxy.
const brief = time.Millisecond

// Quick work that becomes slow all at once has its queue for four times as long as it takes
// at most. Then as much ends in time as with a limit that never allowed a queue.
func TestAutoQuickLatencyStep(t *testing.T) {
	for _, tt := range []struct {
		servers       int
		before, after time.Duration
		shape         string
		patience      time.Duration // of the callers
	}{
		{4, 100 * time.Microsecond, 2 * time.Second, "constant", 5 * time.Second},
		{4, 400 * time.Microsecond, 2 * time.Second, "exponential", 5 * time.Second},
		{4, 400 * time.Microsecond, 500 * time.Millisecond, "exponential", time.Second},
		{16, 800 * time.Microsecond, 20 * time.Millisecond, "exponential", time.Hour},
	} {
		t.Run(fmt.Sprintf("%d servers, %v to %v, %s, patience of %v", tt.servers, tt.before, tt.after, tt.shape, tt.patience), func(t *testing.T) {
			serve := func(quick, epoch time.Duration, seed uint64) (share float64, at int) {
				a := auto(t, limit.Config{QuickLatency: quick})
				a.SetEpoch(epoch)
				p := newPlant(a, tt.servers, tt.before)
				p.rng = rand.New(rand.NewPCG(seed, 2))
				p.shape = tt.shape
				p.last(20 * time.Second)
				p.mean = tt.after
				p.outcome = func(s limit.Sample) weir.Outcome {
					if s.End-s.Start > tt.patience {
						return outcome.Late
					}
					return weir.Success
				}
				p.last(8 * tt.after)
				at = a.Limit()
				good, now := p.good, p.now
				p.last(60 * tt.after)
				return float64(p.good-good) * tt.after.Seconds() / float64(tt.servers) / (p.now - now).Seconds(), at
			}
			sum, control := 0.0, 0.0
			for _, epoch := range epochs() {
				for seed := range uint64(4) {
					share, at := serve(brief, epoch, seed)
					without, atWithout := serve(0, epoch, seed)
					t.Logf("limit %d, %.2f in time; without QuickLatency %d, %.2f", at, share, atWithout, without)
					if at > 3*tt.servers {
						t.Errorf("limit %d: want %d at most", at, 3*tt.servers)
					}
					sum += share
					control += without
				}
			}
			if sum < 0.9*control {
				t.Errorf("%.2f in time: without QuickLatency, %.2f", sum, control)
			}
		})
	}
}

// Quick work that is refused beyond some number in flight has no queue that reaches it, but
// for trials that become rare.
func TestAutoQuickLatencyRefusals(t *testing.T) {
	for _, tt := range []struct {
		servers int
		took    time.Duration
		most    int
		shape   string
	}{
		{8, 400 * time.Microsecond, 16, "constant"},
		{8, 400 * time.Microsecond, 16, "exponential"},
		{4, 200 * time.Microsecond, 10, "exponential"},
	} {
		t.Run(fmt.Sprintf("%d servers, %v, %s", tt.servers, tt.took, tt.shape), func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: brief}, func(t *testing.T, a tuner) {
				p := newPlant(a, tt.servers, tt.took)
				p.shape, p.backoff = tt.shape, true
				p.refuse = func(active int) (time.Duration, bool) { return 50 * time.Microsecond, active >= tt.most }
				p.last(time.Minute)
				refused, use := 1-float64(p.good)/float64(p.done), float64(p.good)*tt.took.Seconds()/float64(tt.servers)/60
				t.Logf("%.4f refused, %.2f of the throughput", refused, use)
				if refused > 0.005 || use < 0.95 {
					t.Errorf("%.4f refused, %.2f of the throughput: want 0.005 and 0.95", refused, use)
				}
			})
		})
	}
}

// Quick work that takes longer by a factor beyond some number in flight stays below it.
func TestAutoQuickLatencyConvoy(t *testing.T) {
	for _, tt := range []struct {
		servers, most int
		factor        float64
		shape         string
	}{
		{4, 6, 1.8, "constant"}, {4, 6, 1.8, "exponential"}, {2, 3, 3, "exponential"}, {8, 12, 4, "exponential"},
	} {
		t.Run(fmt.Sprintf("%d servers, %v times as long with %d, %s", tt.servers, tt.factor, tt.most, tt.shape), func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: brief}, func(t *testing.T, a tuner) {
				p := newPlant(a, tt.servers, 200*time.Microsecond)
				p.shape = tt.shape
				p.slower = func() float64 {
					if p.active >= tt.most {
						return tt.factor
					}
					return 1
				}
				p.last(time.Minute)
				p.wantThroughput(t, 30*time.Second, 0.9)
			})
		})
	}
}

// When the service has grown, the limit is right within ten seconds.
func TestAutoQuickLatencyGrowth(t *testing.T) {
	for _, shape := range []string{"constant", "exponential"} {
		t.Run(shape, func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: brief}, func(t *testing.T, a tuner) {
				p := newPlant(a, 1, brief/5)
				p.shape = shape
				p.last(90 * time.Second)
				p.servers = 16
				p.last(10 * time.Second)
				p.wantThroughput(t, 10*time.Second, 0.9)
			})
		})
	}
}

// After an outage, the limit is right at once.
func TestAutoQuickLatencyOutage(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: brief}, func(t *testing.T, a tuner) {
				p := newPlant(a, 8, 3*brief/10)
				p.rng, p.shape = rand.New(rand.NewPCG(seed, 2)), "exponential"
				p.last(40 * time.Second)
				p.outcome = func(limit.Sample) weir.Outcome { return weir.Dropped }
				p.last(time.Second)
				p.outcome = nil
				p.wantThroughput(t, 10*time.Second, 0.95)
			})
		})
	}
}

// wantThroughput serves for a span of time, and checks the share of what the servers can do.
func (p *plant) wantThroughput(t *testing.T, span time.Duration, want float64) {
	t.Helper()
	good := p.good
	p.last(span)
	got := float64(p.good-good) * p.mean.Seconds() / float64(p.servers) / span.Seconds()
	t.Logf("limit %d, %.2f of the throughput", p.alg.Limit(), got)
	if got < want {
		t.Errorf("%.2f of the throughput: want %v", got, want)
	}
}

// A queue that ends leaves the limit within its bounds.
func TestAutoQuickLatencyBounds(t *testing.T) {
	for _, most := range []int{24, 30, 36} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			eachEpoch(t, limit.Config{QuickLatency: brief, Min: 20, Max: most}, func(t *testing.T, a tuner) {
				p := newPlant(a, 4, 38*brief/10/time.Duration(most))
				p.shape = "exponential"
				p.seen = func(now time.Duration, was, n int, c limit.Cause) {
					if n < 20 || n > most {
						t.Errorf("at %v: limit %d to %d, %v", now, was, n, c)
					}
				}
				p.last(20 * time.Second)
				p.mean = p.mean * 11 / 10
				p.last(50 * time.Second)
				p.outcome = func(limit.Sample) weir.Outcome {
					if p.rng.Float64() < 0.05 {
						return weir.Dropped
					}
					return weir.Success
				}
				p.last(10 * time.Second)
			})
		})
	}
}

// The little that takes long counts, too, for up to four times the typical duration. So all
// work together takes longer than QuickLatency on average by half at most.
func TestAutoQuickLatencyOfLongTail(t *testing.T) {
	for _, tt := range []struct {
		share  float64
		factor float64
	}{{0.01, 500}, {0.001, 5000}} {
		t.Run(fmt.Sprint(tt.share), func(t *testing.T) {
			var took time.Duration
			good := 0
			for seed, epoch := range someEpochs(12) { // the mean of fewer would be uncertain
				a := auto(t, limit.Config{QuickLatency: brief})
				a.SetEpoch(epoch)
				p := newPlant(a, 4, brief/10)
				p.rng = rand.New(rand.NewPCG(uint64(seed), 2))
				p.slower = func() float64 {
					if p.rng.Float64() < tt.share {
						return tt.factor
					}
					return 1
				}
				p.last(30 * time.Second)
				good -= p.good
				took -= p.took
				p.last(time.Minute)
				good += p.good
				took += p.took
			}
			mean := took / time.Duration(good)
			t.Logf("takes %v", mean)
			if mean > brief*3/2 {
				t.Errorf("takes %v: want %v at most", mean, brief*3/2)
			}
		})
	}
}
