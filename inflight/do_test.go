package inflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/rate"
)

// The return of the function is the end of the work, however it ended: nothing
// is held after it.
func TestDoHoldsNothingAfterItsReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(10)})
		testrig.Must(t, err)
		takes := func(d time.Duration, result error) {
			_ = weir.Do(t.Context(), l, func(context.Context) error {
				time.Sleep(d)
				return result
			})
		}
		for range 10 {
			takes(time.Second, nil)
		}
		for _, result := range []error{
			context.DeadlineExceeded, context.Canceled, errors.New("a bug"), weir.Reject(weir.QueueFull, 0), weir.Reject(weir.OverRate, 0),
		} {
			takes(time.Millisecond, result)
			if s := l.Stats(); s.Inflight != 0 || s.Held != 0 {
				t.Errorf("after %v: %+v: want nothing in flight", result, s)
			}
		}
	})
}

// What a limiter learns of latency ends with the report; the units stay until the
// release, and the outcome is counted once.
func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var learnt []limit.Sample
		l, err := inflight.New(inflight.Config{Algorithm: sampleLog{&learnt}, Queue: -1})
		testrig.Must(t, err)
		p, err := l.Acquire(t.Context(), 1)
		testrig.Must(t, err)
		time.Sleep(time.Second)
		p.Report(weir.Success)
		if s := l.Stats(); len(learnt) != 1 || learnt[0].End-learnt[0].Start != time.Second || s.Inflight != 1 || s.Outcomes[weir.Success] != 0 {
			t.Errorf("%+v, %+v: want a sample of one second, and the unit still held", learnt, s)
		}
		if d := l.Usual(); d != 2*time.Second {
			t.Errorf("work usually takes at most %v: want twice the longest", d)
		}
		time.Sleep(time.Hour)
		p.Use(0)
		if s := l.Stats(); s.Inflight != 0 {
			t.Errorf("%+v: want no unit in use", s)
		}
		p.Use(1)
		p.Release(weir.Success)
		if s := l.Stats(); len(learnt) != 1 || s.Inflight != 0 || s.Outcomes[weir.Success] != 1 {
			t.Errorf("%+v, %+v: want nothing more learnt, and one success", learnt, s)
		}
	})
}

// The limiters of a chain get reports; some ignore them.
func TestReportThroughAChain(t *testing.T) {
	var learnt []limit.Sample
	l, err := inflight.New(inflight.Config{Algorithm: sampleLog{&learnt}})
	testrig.Must(t, err)
	p, err := weir.Chain(rate.NewLimiter(rate.Inf, 1), l).Acquire(t.Context(), 1)
	testrig.Must(t, err)
	p.Report(weir.Dropped)
	p.Release(weir.Dropped)
	if s := l.Stats(); len(learnt) != 1 || learnt[0].Outcome != weir.Dropped || s.Outcomes[weir.Dropped] != 1 || s.Inflight != 0 {
		t.Errorf("%+v, %+v: want one sample", learnt, s)
	}
}

// sampleLog is an Algorithm that records its samples.
type sampleLog struct{ all *[]limit.Sample }

func (sampleLog) Limit() int { return 10 }
func (n sampleLog) Observe(s limit.Sample) limit.Cause {
	*n.all = append(*n.all, s)
	return limit.Kept
}
