package cache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
)

func TestErrorsAreNotKept(t *testing.T) {
	tell(t, config{TTL: time.Minute}, func(s *story) {
		s.answers(0, errDown)
		s.want("failed: down")
		s.want("failed: down")
		s.asked(2)
		s.answers(0, nil)
		s.want("filled 3")
	})
}

func TestErrorTTL(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Second}}, func(s *story) {
		s.answers(time.Second, errDown)
		first, second := s.later(context.Background()), s.later(context.Background())
		s.hear(first, "failed: down")
		s.hear(second, "failed: down")
		time.Sleep(time.Second - 1)
		s.want("hit: down") // from the end of the fill
		s.asked(1)
		time.Sleep(1 * time.Nanosecond)
		s.answers(0, nil)
		s.want("filled 2")
		time.Sleep(time.Hour)
		s.want("hit 2")
	})
}

func TestSetAndDeleteOfAKeptError(t *testing.T) {
	tell(t, config{Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(0, errDown)
		s.want("failed: down")
		s.c.Set("a", 5)
		s.want("hit 5")
		s.c.Delete("a")
		s.want("failed: down")
		s.c.Delete("a")
		s.answers(0, nil)
		s.want("filled 3")
	})
}

func TestTTLOfErrors(t *testing.T) {
	errGone := errors.New("gone")
	of := func(_ string, _ int, err error) time.Duration {
		switch {
		case errors.Is(err, errGone):
			return time.Minute
		case err != nil:
			return -1
		}
		return 0
	}
	tell(t, config{TTLOf: of, Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(0, errDown)
		s.want("failed: down")
		s.answers(0, fmt.Errorf("of a: %w", errGone))
		s.want("failed: of a: gone")
		time.Sleep(time.Minute - 1)
		s.want("hit: of a: gone")
		s.asked(2)
		time.Sleep(time.Nanosecond)
		s.answers(1, nil)
		s.want("filled 3")
		s.want("hit 3") // zero: for ever
	})
}

// Rejections and cancellations are never kept, whatever TTLOf says.
func TestErrorsThatAreNeverKept(t *testing.T) {
	for _, err := range []error{
		weir.Reject(weir.OverRate, 0), weir.Reject(weir.TooLate, 0), context.Canceled,
		fmt.Errorf("wrapped: %w", weir.ErrRejected), fmt.Errorf("wrapped: %w", context.Canceled),
	} {
		keep := func(string, int, error) time.Duration { return time.Hour }
		tell(t, config{TTLOf: keep, Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
			s.answers(0, err)
			s.want("failed: " + err.Error())
			s.want("failed: " + err.Error())
			s.asked(2)
		})
	}
}

func TestStaleIfError(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: time.Minute}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, errDown)
		first, second := s.later(context.Background()), s.later(context.Background())
		s.hear(first, "stale 1") // both have waited: that is no stale-while-revalidate
		s.hear(second, "stale 1")
		s.asked(2)
		s.takes(time.Second, func() { s.want("stale 1") })
		s.answers(0, errDown)
		time.Sleep(time.Minute - 2*time.Second - 1)
		s.want("stale 1")
		time.Sleep(1 * time.Nanosecond)
		s.want("failed: down")
		s.answers(0, nil)
		s.want("filled 6")
	})
}

// A rejection is no reason for StaleIfError, nor an error one for
// StaleIfRejected.
func TestStaleOnlyForItsReason(t *testing.T) {
	tell(t, config{TTL: 1, Refresh: cache.Refresh{StaleIfError: time.Hour}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(1 * time.Nanosecond)
		s.answers(0, weir.Reject(weir.OverLimit, 0))
		s.want("failed: rejected: over_limit")
		s.answers(0, errDown)
		s.want("stale 1")
	})
	tell(t, config{TTL: 1, Refresh: cache.Refresh{StaleIfRejected: time.Hour}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(1 * time.Nanosecond)
		s.answers(0, errDown)
		s.want("failed: down")
		s.answers(0, weir.Reject(weir.OverLimit, 0))
		s.want("stale 1")
	})
}

// The deadline of a caller is his own: he gets the old value then, while the
// fill goes on for the others.
func TestStaleIfTheCallersDeadlineIsMissed(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: time.Minute}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, nil)
		patient := s.later(context.Background())
		s.takes(10*time.Millisecond, func() { s.hear(s.later(timeout(s, 10*time.Millisecond)), "stale 1") })
		s.hear(patient, "filled 2")
	})
}

// The caller that began a fill leaves with the old value, and the fill continues.
func TestStaleWhileTheFillContinues(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: time.Minute}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(time.Second, nil)
		hasty := s.later(timeout(s, 10*time.Millisecond))
		patient := s.later(context.Background())
		s.hear(hasty, "stale 1")
		s.hear(patient, "coalesced 2")
	})
}

// For the race detector: he leaves at the very moment at which it begins.
func TestLeavingAsTheFillBegins(t *testing.T) {
	c := newCache(t, config{TTL: 1, Refresh: cache.Refresh{StaleIfError: time.Hour}})
	fill := func(ctx context.Context, _ string) (int, error) { return 2, ctx.Err() }
	for range 2000 {
		c.Set("a", 1)
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		if v, err := c.Get(ctx, "a", fill); err != nil || v != 1 && v != 2 {
			t.Fatalf("%d, %v: want a value", v, err)
		}
	}
}

func TestStaleIfAFillPanics(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: time.Minute}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		if v, err := s.c.Get(context.Background(), "a", func(context.Context, string) (int, error) { panic("!") }); v != 1 || err != nil {
			t.Errorf("%d, %v: want the old value", v, err)
		}
	})
}

// While a kept error is fresh, the old value is returned at once, and nothing
// asked.
func TestErrorTTLPacesRetries(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: time.Minute, ErrorTTL: 10 * time.Second}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(0, errDown)
		s.want("stale 1")
		s.asked(2)
		time.Sleep(10*time.Second - 1)
		s.want("stale 1")
		s.asked(2)
		time.Sleep(1 * time.Nanosecond)
		s.want("stale 1")
		s.asked(3)
		s.answers(0, nil)
		time.Sleep(10 * time.Second)
		s.want("filled 4")
	})
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfError: 5 * time.Second, ErrorTTL: 10 * time.Second}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(0, errDown)
		s.want("stale 1")
		time.Sleep(5 * time.Second) // the pause is longer than the old value lasts
		s.want("hit: down")
		s.want("hit: down")
		s.asked(2)
		time.Sleep(5 * time.Second)
		s.want("failed: down")
		s.asked(3)
	})
}

// An error that is kept costs no value that may yet be returned in place of a
// rejection.
func TestKeptErrorLeavesTheOldValue(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfRejected: time.Hour, ErrorTTL: 10 * time.Second}}, func(s *story) {
		s.want("filled 1")
		time.Sleep(time.Minute)
		s.answers(0, errDown)
		s.want("failed: down")
		s.want("hit: down")
		time.Sleep(10 * time.Second)
		s.answers(0, weir.Reject(weir.OverRate, 0))
		s.want("stale 1")
	})
}

// A caller that waits in a limiter's queue until its deadline gets an old value,
// as after a rejection; the missed deadline is not kept as an error of the fill.
func TestDeadlineInALimitersQueue(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			lim := new(door)
			c := newCache(t, config{TTL: time.Minute, Refresh: cache.Refresh{StaleIfRejected: 2 * time.Minute, ErrorTTL: 24 * time.Hour, Limiter: lim, Timeout: timeout}})
			fill := func(context.Context, string) (int, error) { return 1, nil }
			look := func(want string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if got := answer(c.Lookup(ctx, "a", fill)); got != want {
					t.Errorf("timeout %v: %s, want %s", timeout, got, want)
				}
				synctest.Wait()
			}
			look("filled 1")
			time.Sleep(time.Minute)
			lim.shut = true
			look("stale 1")
			lim.shut = false
			look("filled 1") // not the error of the queue
		})
	}
}

// A door is a limiter that admits all requests, or none.
type door struct{ shut bool }

func (d *door) Acquire(ctx context.Context, _ int) (weir.Permit, error) {
	if d.shut {
		<-ctx.Done()
		return weir.Permit{}, ctx.Err()
	}
	return weir.Permit{}, nil
}

// A background refresh that hangs is cancelled when the old value is too old and
// no caller waits.
func TestRefreshThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Minute, Background: 1}})
		defer c.Close()
		fill := func(context.Context, string) (int, error) { return 1, nil }
		hang := func(ctx context.Context, _ string) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		look := func(fill func(context.Context, string) (int, error), want string) {
			t.Helper()
			if got := answer(c.Lookup(t.Context(), "a", fill)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		look(fill, "filled 1")
		time.Sleep(time.Minute)
		look(hang, "stale 1")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		look(fill, "filled 1")
	})
}

// A Delete while an old value would be returned: it is not.
func TestDeleteBeforeAFillFails(t *testing.T) {
	for _, purge := range []bool{false, true} {
		tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{Stale: time.Hour, StaleIfError: time.Hour}}, func(s *story) {
			s.want("filled 1")
			time.Sleep(time.Minute)
			s.answers(time.Second, errDown)
			first := s.later(context.Background())
			if purge {
				s.c.Purge()
			} else {
				s.c.Delete("a")
			}
			s.hear(first, "failed: down")
			s.want("failed: down")
		})
	}
}

// What was set meanwhile is returned in place of the error of a fill.
func TestSetBeforeAFillFails(t *testing.T) {
	tell(t, config{TTL: time.Minute, Refresh: cache.Refresh{ErrorTTL: time.Hour}}, func(s *story) {
		s.answers(time.Second, errDown)
		first := s.later(context.Background())
		s.c.Set("a", 9)
		s.hear(first, "hit 9")
		s.want("hit 9")
		synctest.Wait()
	})
}
