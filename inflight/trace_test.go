package inflight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// expiring has a limit of 1, and of 2 from an instant on.
type expiring struct {
	limit.Controller
	at    time.Duration
	limit int
}

func (e *expiring) Limit() int                       { return e.limit }
func (e *expiring) Observe(limit.Sample) limit.Cause { return limit.Kept }
func (e *expiring) Deadline() (time.Duration, bool)  { return e.at, e.limit == 1 }
func (e *expiring) Expire(now time.Duration) limit.Cause {
	if e.limit == 2 || now < e.at {
		return limit.Kept
	}
	e.limit = 2
	return limit.Throughput
}

func (e *expiring) Evidence() map[string]float64 { return map[string]float64{"latency": 0.5} }

// Trace also receives a change that an algorithm makes at an instant, without a sample.
func TestTraceExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []inflight.Event
		l, err := inflight.New(inflight.Config{
			Algorithm: &expiring{Controller: controller(t), at: time.Second, limit: 1}, MaxWait: -1,
			Trace: func(e inflight.Event) { events = append(events, e) },
		})
		testrig.Must(t, err)
		for range 2 {
			p, err := l.Acquire(context.Background(), 1) // the second waits for the change
			testrig.Must(t, err)
			defer p.Release(weir.Success)
		}
		synctest.Wait()
		if len(events) != 1 || events[0].Was != 1 || events[0].Limit != 2 || events[0].Cause != limit.Throughput ||
			events[0].Sample.End != time.Second || events[0].Evidence["latency"] != 0.5 {
			t.Errorf("%+v: want one change, from 1 to 2, with its evidence", events)
		}
	})
}
