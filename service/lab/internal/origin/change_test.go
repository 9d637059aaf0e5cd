package origin_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/lab/internal/origin"
)

func lasting(d time.Duration) *settings.Duration { return new(settings.Duration(d)) }

func TestMoreWorkers(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), Queue: 10}
	play(t, cfg, func(t *testing.T, s *scene) {
		s.arriveTimes(t, 5)
		time.Sleep(second)
		s.change(t, origin.Change{Workers: new(4)})
		s.wantPresent(t, 4, 4, 1)
		s.wantEnds(t, 2*second, 3*second, 3*second, 3*second, 4*second)
	})
}

func TestFewerWorkersFinishWhatRuns(t *testing.T) {
	cfg := origin.Config{Workers: 3, ServiceTime: every(2 * second), Queue: 10}
	play(t, cfg, func(t *testing.T, s *scene) {
		s.arriveTimes(t, 5)
		time.Sleep(second)
		s.change(t, origin.Change{Workers: new(1)})
		s.wantPresent(t, 1, 3, 2)
		s.wantEnds(t, 2*second, 2*second, 2*second, 4*second, 6*second)
	})
}

// "The others apply to all work that begins later, including that of waiting
// requests. Work in progress is not affected"
func TestServiceTimeChanges(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), Queue: 10}
	play(t, cfg, func(t *testing.T, s *scene) {
		s.arriveTimes(t, 3)
		time.Sleep(second)
		s.change(t, origin.Change{ServiceTime: lasting(5 * second)})
		s.wantEnds(t, 2*second, 7*second, 12*second)
	})
}

func TestFailureRateChanges(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), Queue: 10}
	play(t, cfg, func(t *testing.T, s *scene) {
		s.arriveTimes(t, 2)
		time.Sleep(second)
		s.change(t, origin.Change{FailureRate: new(1.0)})
		s.wantDone(t, origin.Done{End: 2 * second, Status: 200}, origin.Done{End: 4 * second, Status: 500})
	})
}

// Waiting requests keep their places, even if the queue becomes shorter.
func TestQueueChanges(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), Queue: 2}
	play(t, cfg, func(t *testing.T, s *scene) {
		s.arriveTimes(t, 3)
		s.change(t, origin.Change{Queue: new(3)})
		s.arriveTimes(t, 1)
		s.wantPresent(t, 1, 1, 3)
		s.change(t, origin.Change{Queue: new(0)})
		s.wantPresent(t, 1, 1, 3)
		if rec := s.arrive(t.Context()); rec.Code != 503 {
			t.Errorf("%d: want 503", rec.Code)
		}
		s.wantEnds(t, 0, 2*second, 4*second, 6*second, 8*second)
	})
}

// A client leaves the queue before CancelAbandoned is set; its work begins after.
func TestCancelAbandonedChanges(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(4 * second), Queue: 10}
	play(t, cfg, func(t *testing.T, s *scene) {
		impatient, leave := context.WithCancel(t.Context())
		s.arrive(impatient)
		s.arrive(impatient)
		s.arrive(t.Context())
		leave()
		time.Sleep(second)
		s.change(t, origin.Change{CancelAbandoned: new(true)})
		s.wantDone(t,
			origin.Done{End: 4 * second, Status: 200, Abandoned: true},
			origin.Done{End: 4 * second, Status: 499, Abandoned: true},
			origin.Done{End: 8 * second, Status: 200},
		)
	})
}

func TestDistributionChanges(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(second)}
	play(t, cfg, func(t *testing.T, s *scene) {
		for _, tt := range []struct {
			change origin.Change
			want   string // the distribution and its CV
			cv     float64
		}{
			{origin.Change{Distribution: new("lognormal"), CV: new(2.0)}, "lognormal", 2},
			{origin.Change{CV: new(0.25)}, "lognormal", 0.25},
			{origin.Change{Distribution: new("normal")}, "normal", 0.25},
			{origin.Change{Distribution: new("exponential")}, "exponential", 1},
			{origin.Change{Distribution: new("constant")}, "constant", 0},
		} {
			s.change(t, tt.change)
			if got := s.Settings(); got.Distribution != tt.want || got.CV != tt.cv {
				t.Errorf("%s with a CV of %v: want %s with %v", got.Distribution, got.CV, tt.want, tt.cv)
			}
		}
	})
}

func TestAChangeIsAllOrNothing(t *testing.T) {
	cfg := origin.Config{Workers: 2, ServiceTime: every(second), Queue: 3}
	play(t, cfg, func(t *testing.T, s *scene) {
		before := s.Settings()
		err := s.Set(origin.Change{Workers: new(5), Queue: new(9), ServiceTime: lasting(2 * second), FailureRate: new(1.5)})
		if want := "origin: failure_rate = 1.5: must be in [0, 1]"; err == nil || err.Error() != want {
			t.Errorf("%v: want %s", err, want)
		}
		if after := s.Settings(); after != before {
			t.Errorf("%+v: want %+v as before", after, before)
		}
		s.wantPresent(t, 2, 0, 0)
	})
}
