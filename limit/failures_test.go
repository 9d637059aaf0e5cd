package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

// Failures that take 2 % of a success's time do not move the limit, however
// many: what fails in no time holds nothing up. A single fall is the error of a
// small sample, and takes a tenth at most.
func TestAutoBearsCheapFailures(t *testing.T) {
	for _, share := range []float64{0.125, 0.5, 1} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
				p, rest := rested(t, a)
				p.refuse = func(int) (time.Duration, bool) { return p.mean / 50, p.rng.Float64() < share }
				p.seen = func(now time.Duration, was, n int, c limit.Cause) {
					if c == limit.Dropped && n < was*9/10 {
						t.Errorf("at %v: limit %d to %d, %v", now, was, n, c)
					}
				}
				p.wantMean(t, 10*time.Second, 0.85*rest, 1.2*rest)
				p.refuse, p.seen = nil, nil
				p.last(time.Second)
				p.wantMean(t, 4*time.Second, 0.85*rest, 1.2*rest)
			})
		})
	}
}

// Failures that take as long as a success, and do not depend on load, cost the
// limit for a moment: it falls, they go on, and the fall is undone. The part of
// the limit that was a queue may stay away.
func TestAutoLearnsBackgroundFailures(t *testing.T) {
	for _, most := range []int{20, 1000} {
		t.Run(fmt.Sprint("Max ", most), func(t *testing.T) {
			eachEpoch(t, limit.Config{Max: most}, func(t *testing.T, a limit.Controller) {
				p, rest := rested(t, a)
				p.outcome = func(limit.Sample) weir.Outcome {
					if p.rng.Float64() < 0.125 {
						return weir.Dropped
					}
					return weir.Success
				}
				fell, undone := false, false
				p.seen = func(_ time.Duration, _, _ int, c limit.Cause) {
					fell = fell || c == limit.Dropped
					undone = undone || c == limit.Undone
				}
				p.last(30 * time.Second)
				if most == 20 && (!fell || !undone) {
					t.Errorf("fell: %v, undone: %v: want both", fell, undone)
				}
				p.wantMean(t, 30*time.Second, 0.93*20, 1.2*rest)
			})
		})
	}
}

// A service that refuses soon what is more than twenty in flight has a knee
// there, whatever its latency says.
func TestAutoFailuresThatDependOnLoad(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p := newPlant(a, 40, 50*time.Millisecond)
		p.shape = "exponential"
		p.backoff = true
		p.refuse = func(active int) (time.Duration, bool) { return time.Millisecond, active >= 20 }
		p.last(64*time.Second).wantMean(t, 16*time.Second, 18.5, 20.5)
	})
}

// One per cent of the work takes a thousand times as long: it says nothing about
// what can be done at once.
func TestAutoBearsOutliers(t *testing.T) {
	for _, mean := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		t.Run(mean.String(), func(t *testing.T) {
			eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
				p := newPlant(a, 20, mean)
				p.last(32 * time.Second)
				rest, _, _ := p.average(4 * time.Second)
				p.slower = func() float64 {
					if p.rng.Float64() < 0.01 {
						return 1000
					}
					return 1
				}
				for range 2 {
					p.wantMean(t, 3*time.Minute, 15, 1.3*rest)
				}
			})
		})
	}
}

// The same samples give the same limits, for the same reasons.
func TestAutoIsDeterministic(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		epoch := epochs()[0]
		a.SetEpoch(epoch)
		same, later := auto(t, limit.Config{}), auto(t, limit.Config{})
		same.SetEpoch(epoch)
		const shift = 5*time.Hour + 7*time.Millisecond
		later.SetEpoch(epoch - shift) // the same wall clock
		p := newPlant(&twins{a, []limit.Controller{same, later}, []time.Duration{0, shift}, t}, 20, 50*time.Millisecond)
		p.shape = "exponential"
		p.outcome = func(limit.Sample) weir.Outcome {
			if p.rng.Float64() < 0.08 {
				return weir.Dropped
			}
			return weir.Success
		}
		p.last(3 * time.Minute)
	})
}

// twins are Autos that learn from the same samples, at instants that differ by a
// shift, and should do the same.
type twins struct {
	limit.Controller
	others []limit.Controller
	shift  []time.Duration
	t      *testing.T
}

func (w *twins) Observe(s limit.Sample) limit.Cause {
	cause := w.Controller.Observe(s)
	for i, other := range w.others {
		s := s
		s.Start, s.End = s.Start+w.shift[i], s.End+w.shift[i]
		if c := other.Observe(s); c != cause || other.Limit() != w.Limit() {
			w.t.Fatalf("at %v, shifted by %v: limit %d, %v: want %d, %v", s.End, w.shift[i], other.Limit(), c, w.Limit(), cause)
		}
	}
	return cause
}

// While the limit doubles at the start, the share of background failures is not
// known yet. Four failures of ten may be chance, and leave the limit alone; six may not.
func TestAutoStartToleratesMoreFailures(t *testing.T) {
	for _, tt := range []struct{ failures, want int }{{4, 10}, {6, 7}} {
		t.Run(fmt.Sprint(tt.failures), func(t *testing.T) {
			a := auto(t, limit.Config{})
			for i := range 10 {
				s := limit.Sample{End: time.Second + time.Duration(i), Inflight: 10, Outcome: weir.Success}
				if i >= 10-tt.failures {
					s.Outcome = weir.Dropped
				}
				a.Observe(s)
			}
			if n := a.Limit(); n != tt.want {
				t.Errorf("limit %d: want %d", n, tt.want)
			}
		})
	}
}

// Work that hung for a minute blinds Auto to other failures for 40 round trips at
// most, and not for a minute: an outage that follows is noticed.
func TestAutoNoticesAnOutageAfterHungWork(t *testing.T) {
	eachEpoch(t, limit.Config{}, func(t *testing.T, a limit.Controller) {
		p, rest := rested(t, a)
		p.idle(time.Minute)
		for range 40 { // all of them end now
			a.Observe(limit.Sample{Start: p.now - time.Minute, End: p.now, Inflight: a.Limit(), Outcome: outcome.TimedOut})
		}
		if n := a.Limit(); float64(n) > 0.85*rest {
			t.Fatalf("limit %d after all work hung: want a cut from %.1f", n, rest)
		}
		p.last(3 * time.Second)
		p.outcome = func(limit.Sample) weir.Outcome { return weir.Dropped }
		p.last(4*time.Second).wantLimit(t, 1, 10)
	})
}
