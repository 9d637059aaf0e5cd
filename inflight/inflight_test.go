package inflight_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// fixed is a Limiter of n units with a queue that is first in, first out unless
// cfg says otherwise.
func fixed(t testing.TB, n int, cfg inflight.Config) *inflight.Limiter {
	t.Helper()
	cfg.Algorithm = limit.Fixed(n)
	if cfg.Discipline == "" {
		cfg.Discipline = inflight.FIFO
	}
	return newLimiter(t, cfg)
}

// controller returns the methods of an Auto, for algorithms that have their own for some.
func controller(t testing.TB) limit.Controller {
	t.Helper()
	a, err := limit.NewAuto(limit.Config{})
	testrig.Must(t, err)
	return a.(limit.Controller)
}

func newLimiter(t testing.TB, cfg inflight.Config) *inflight.Limiter {
	t.Helper()
	l, err := inflight.New(cfg)
	testrig.Must(t, err)
	return l
}

func acquire(t testing.TB, l *inflight.Limiter, n int) weir.Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), n)
	if err != nil {
		t.Fatalf("acquire %d: %v", n, err)
	}
	return p.Move()
}

func reason(err error) weir.Reason {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.Reason
	}
	return 0
}

// what names the result of an Acquire.
func what(err error) string {
	switch {
	case err == nil:
		return "admit"
	case reason(err) != 0 && errors.Is(err, weir.ErrRejected):
		return reason(err).String()
	case err == context.Canceled, err == context.DeadlineExceeded:
		return "cancel"
	default:
		return err.Error()
	}
}

// requests is how many a limiter has counted, each once.
func requests(s inflight.Stats) uint64 {
	n := s.Admitted + s.Cancelled + uint64(s.Waiting)
	for _, rejected := range s.Rejected {
		n += rejected
	}
	return n
}

// after runs f in d, in a bubble.
func after(d time.Duration, f func()) { time.AfterFunc(d, f) }

// A caller comes at an instant, asks for n units, works with them and gives
// them back. It waits no longer than its patience, if it has one. Instants are
// in seconds, and apart from each other where their order would be open.
type caller struct {
	at, n, work, patience int
	want                  string // admit, cancel or a reason
	when                  int
}

// Everything happens at its exact instant.
func TestCallers(t *testing.T) {
	forever := inflight.Config{MaxWait: -1}
	for _, tt := range []struct {
		rule    string
		limit   int
		cfg     inflight.Config
		callers []caller
	}{
		{"whoever finds room is admitted at once", 3, forever, []caller{
			{0, 2, 9, 0, "admit", 0},
			{1, 1, 9, 0, "admit", 1},
		}},
		{"whoever finds none waits for a release", 1, forever, []caller{
			{0, 1, 3, 0, "admit", 0},
			{1, 1, 4, 0, "admit", 3},
			{2, 1, 1, 0, "admit", 7},
		}},
		{"a release lets in all who fit, and nobody else", 4, forever, []caller{
			{0, 4, 9, 0, "admit", 0},
			{1, 1, 5, 0, "admit", 9},
			{2, 2, 6, 0, "admit", 9},
			{3, 2, 5, 0, "admit", 14},
		}},
		{"a small one does not overtake a large one", 3, forever, []caller{
			{0, 2, 9, 0, "admit", 0},
			{1, 3, 5, 0, "admit", 9},
			{2, 1, 1, 0, "admit", 14},
		}},
		{"a request for nothing waits its turn, too", 1, forever, []caller{
			{0, 1, 9, 0, "admit", 0},
			{1, 0, 9, 0, "admit", 1},
			{2, 1, 5, 0, "admit", 9},
			{3, 0, 1, 0, "admit", 9},
		}},
		{"more than there is will never fit", 3, forever, []caller{
			{0, 4, 1, 0, "over_limit", 0},
			{1, math.MaxInt, 1, 0, "over_limit", 1},
		}},
		{"a limit of zero admits nobody", 0, forever, []caller{{0, 1, 1, 0, "over_limit", 0}}},
		{"without a queue nobody waits", 1, inflight.Config{Queue: -1}, []caller{
			{0, 1, 9, 0, "admit", 0},
			{1, 1, 9, 0, "over_limit", 1},
			{10, 1, 9, 0, "admit", 10},
		}},
		{"a queue has its bound", 1, inflight.Config{Queue: 1, MaxWait: -1}, []caller{
			{0, 1, 9, 0, "admit", 0},
			{1, 1, 9, 0, "admit", 9},
			{2, 1, 9, 0, "queue_full", 2},
			{10, 1, 9, 0, "admit", 18},
		}},
		{"each is overdue at its own instant", 1, inflight.Config{MaxWait: 10 * time.Second}, []caller{
			{0, 1, 99, 0, "admit", 0},
			{1, 1, 9, 0, "overdue", 11},
			{2, 1, 9, 0, "overdue", 12},
			{5, 1, 9, 0, "overdue", 15},
			{90, 1, 9, 0, "admit", 99},
			{99 + 1, 1, 9, 0, "admit", 108},
		}},
		{"an unbounded wait may last", 1, forever, []caller{
			{0, 1, 1e6, 0, "admit", 0},
			{1, 1, 9, 0, "admit", 1e6},
		}},
		{"so may one whose bound is beyond the clock", 1, inflight.Config{MaxWait: math.MaxInt64}, []caller{
			{0, 1, 1e6, 0, "admit", 0},
			{1, 1, 9, 0, "admit", 1e6},
		}},
		{"whoever loses patience leaves at once", 1, forever, []caller{
			{0, 1, 9, 0, "admit", 0},
			{1, 1, 1, 5, "cancel", 6},
			{2, 1, 1, 0, "admit", 9},
		}},
		{"and lets in the small one that it held back", 3, forever, []caller{
			{0, 2, 9, 0, "admit", 0},
			{1, 2, 9, 5, "cancel", 6},
			{2, 1, 9, 0, "admit", 6},
		}},
		{"patience does not count while working", 1, forever, []caller{
			{0, 1, 9, 2, "admit", 0},
			{1, 1, 9, 0, "admit", 9},
		}},
		{"when the first has left, the next still has its own deadline", 1, inflight.Config{MaxWait: 10 * time.Second}, []caller{
			{0, 1, 99, 0, "admit", 0},
			{1, 1, 9, 3, "cancel", 4},
			{2, 1, 9, 0, "overdue", 12},
			{5, 1, 9, 1, "cancel", 6},
			{7, 1, 9, 0, "overdue", 17},
		}},
		{"an alarm for one that was admitted does not end the alarms", 1, inflight.Config{MaxWait: 10 * time.Second}, []caller{
			{0, 1, 2, 0, "admit", 0},
			{1, 1, 99, 0, "admit", 2},
			{3, 1, 9, 0, "overdue", 13},
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := fixed(t, tt.limit, tt.cfg)
				var all sync.WaitGroup
				for _, c := range tt.callers {
					all.Go(func() { c.call(t, l) })
				}
				all.Wait()
				if s := l.Stats(); s.Inflight != 0 || requests(s) != uint64(len(tt.callers)) || s.Outcomes[weir.Success] != s.Admitted {
					t.Errorf("%+v: want %d requests, and all gone", s, len(tt.callers))
				}
			})
		})
	}
}

func (c caller) call(t *testing.T, l *inflight.Limiter) {
	began := time.Now()
	time.Sleep(seconds(c.at))
	ctx := t.Context()
	if c.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, seconds(c.patience))
		defer cancel()
	}
	p, err := l.Acquire(ctx, c.n)
	if when := time.Since(began); what(err) != c.want || when != seconds(c.when) {
		t.Errorf("%+v: %s at %v", c, what(err), when)
	}
	if err == nil {
		time.Sleep(seconds(c.work))
		p.Release(weir.Success)
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// TryAcquire never waits, and overtakes no waiting request.
func TestTryAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fixed(t, 3, inflight.Config{MaxWait: -1})
		try := func(n int, want bool) (p weir.Permit) {
			t.Helper()
			p, ok := l.TryAcquire(context.Background(), n)
			if ok != want {
				t.Errorf("try %d: %v: want %v", n, ok, want)
			}
			return p.Move()
		}
		p := try(2, true)
		nothing := try(2, false)
		nothing.Release(weir.Success)
		go func() {
			large := acquire(t, l, 3)
			large.Release(weir.Success)
		}()
		synctest.Wait()
		try(1, false) // though it would fit
		p.Release(weir.Dropped)
		synctest.Wait()
		p = try(3, true)
		p.Release(weir.Ignored)
		want := inflight.Stats{
			State: inflight.State{Limit: 3}, Admitted: 3,
			Rejected: map[weir.Reason]uint64{weir.OverLimit: 2, weir.QueueFull: 0, weir.Overdue: 0, weir.TooLate: 0, weir.Closed: 0},
			Waits:    [14]uint64{3},
			Outcomes: map[weir.Outcome]uint64{weir.Success: 1, weir.Dropped: 1, weir.Ignored: 1},
			Changes:  map[limit.Cause]uint64{},
		}
		if s := l.Stats(); !reflect.DeepEqual(s, want) {
			t.Errorf("%+v: want %+v", s, want)
		}
	})
}
