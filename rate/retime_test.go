package rate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// In golang.org/x/time/rate the calls that wait do not notice a change.
func TestChangeMovesWaiters(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(l *rate.Limiter)
		want   []string
	}{
		"none":                 {func(*rate.Limiter) {}, []string{"a go 100ms", "b go 300ms", "c go 400ms"}},
		"a higher limit":       {func(l *rate.Limiter) { l.SetLimit(20) }, []string{"a go 100ms", "b go 225ms", "c go 275ms"}},
		"a lower limit":        {func(l *rate.Limiter) { l.SetLimit(5) }, []string{"a go 100ms", "b go 450ms", "c go 650ms"}},
		"no limit":             {func(l *rate.Limiter) { l.SetLimit(rate.Inf) }, []string{"a go 100ms", "b go 150ms", "c go 150ms"}},
		"a quota":              {func(l *rate.Limiter) { l.SetLimit(20); l.SetBurst(7) }, []string{"a go 100ms", "b go 225ms", "c go 275ms"}},
		"no quota":             {func(l *rate.Limiter) { l.SetLimit(rate.Inf) }, []string{"a go 100ms", "b go 150ms", "c go 150ms"}},
		"a larger burst":       {func(l *rate.Limiter) { l.SetBurst(100) }, []string{"a go 100ms", "b go 300ms", "c go 400ms"}},
		"a smaller burst":      {func(l *rate.Limiter) { l.SetBurst(1) }, []string{"a go 100ms", "b over_burst 150ms", "c go 200ms"}},
		"no burst":             {func(l *rate.Limiter) { l.SetBurst(0) }, []string{"a go 100ms", "b over_burst 150ms", "c over_burst 150ms"}},
		"nothing":              {func(l *rate.Limiter) { l.SetBurst(0); l.SetLimit(0) }, []string{"a go 100ms", "b over_burst 150ms", "c over_burst 150ms"}},
		"the same limit":       {func(l *rate.Limiter) { l.SetLimit(10) }, []string{"a go 100ms", "b go 300ms", "c go 400ms"}},
		"up and down":          {func(l *rate.Limiter) { l.SetLimit(1e9); l.SetLimit(10) }, []string{"a go 100ms", "b go 300ms", "c go 400ms"}},
		"down to zero, and up": {func(l *rate.Limiter) { l.SetLimit(0); l.SetLimit(20) }, []string{"a go 100ms", "b go 225ms", "c go 275ms"}},
		"a pause of an hour": {func(l *rate.Limiter) {
			l.SetLimit(0)
			time.Sleep(time.Hour)
			l.SetLimit(10)
		}, []string{"a go 100ms", "b go 1h0m0.3s", "c go 1h0m0.4s"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				l := rate.NewLimiter(10, 2)
				q := newLine(t, l)
				l.AllowN(time.Now(), 2)
				q.join("a", 1)
				q.join("b", 2)
				q.join("c", 1)
				time.Sleep(tick * 3 / 2)
				tt.change(l)
				time.Sleep(time.Minute)
				q.expect(tt.want...)
				if b := l.Burst(); l.Limit() < rate.Inf {
					tokens(t, l, float64(b))
				}
			})
		})
	}
}

// A change may be dated: until then, it is that time.
func TestChangeInTheFuture(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 4)
		l.AllowN(time.Now(), 4)
		l.SetLimitAt(time.Now().Add(2*tick), 100)
		tokens(t, l, 2)
		if !l.Allow() || !l.Take(1).OK || l.Allow() {
			t.Error("want the tokens of then")
		}
		time.Sleep(2 * tick)
		tokens(t, l, 0)
	})
}

// A call is refused once it is known that its turn comes too late, and
// the calls behind it need not wait for what it would have taken.
func TestChangeTellsWhoWillBeTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 2), rate.Config{MaxWait: time.Hour})
		q := newLine(t, l)
		l.AllowN(time.Now(), 2)
		q.join("a", 1)
		q.joinWithin(time.Second, "b", 2)
		q.join("c", 1)
		q.joinWithin(3*time.Second, "d", 1)
		q.joinWithin(2*time.Second, "e", 1)
		time.Sleep(tick / 2)
		l.SetLimit(1) // a after 1 s - 50 ms, b never, so c 1 s and d 2 s after a
		q.expect("b too_late 50ms", "e too_late 50ms")
		tokens(t, l, -2.5)
		time.Sleep(time.Hour)
		q.expect("b too_late 50ms", "e too_late 50ms", "a go 550ms", "c go 1.55s", "d go 2.55s")
	})
}

// With a limit of zero no turn comes: a call that has a deadline is refused.
func TestChangeToZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 1)
		q := newLine(t, l)
		l.Allow()
		q.joinWithin(time.Hour, "a", 1)
		q.join("b", 1)
		q.join("c", 1)
		l.SetLimit(0)
		q.expect("a too_late 0s")
		time.Sleep(time.Hour)
		leave := q.join("late", 1) // waits for another limit
		q.joinWithin(time.Hour, "no", 1)
		leave()
		l.SetLimit(10)
		time.Sleep(time.Hour)
		q.expect("a too_late 0s", "late cancel 1h0m0s", "no too_late 1h0m0s", "b go 1h0m0.1s", "c go 1h0m0.2s")
	})
}

func TestWaitWithLimitZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(0, 1)
		l.Allow()
		q := newLine(t, l)
		q.join("a", 1)
		q.joinWithin(time.Hour, "b", 1)
		time.Sleep(time.Hour)
		q.expect("b too_late 0s")
		l.SetLimit(10)
		time.Sleep(time.Hour)
		q.expect("b too_late 0s", "a go 1h0m0.1s")
	})
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(0, 1, 1), rate.Config{MaxWait: time.Hour})
		l.Allow()
		if got := what(l.Wait(t.Context())); got != "over_rate" {
			t.Errorf("%s: want it to be told at once that an hour is too short", got)
		}
	})
}

// A Reservation keeps its time when the limit changes: calls that wait come at
// the new rate.
func TestChangeAmongReservations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 2)
		q := newLine(t, l)
		l.AllowN(time.Now(), 2)
		r := l.ReserveN(time.Now(), 2)
		q.join("a", 1)
		l.SetLimit(100)
		if r.Delay() != 2*tick {
			t.Errorf("delay %v", r.Delay())
		}
		time.Sleep(time.Second)
		q.expect("a go 30ms")
	})
}

// A change lets the calls go for which there is enough, and wakes none too early.
func TestChangeWhileTheTimerRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(1, 1)
		q := newLine(t, l)
		l.Allow()
		q.join("a", 1)
		q.join("b", 1)
		for range 9 {
			time.Sleep(tick)
			l.SetLimit(1)
			l.SetBurst(l.Burst() + 1)
			synctest.Wait()
		}
		l.SetLimit(0.5) // a tenth is missing
		time.Sleep(time.Minute)
		q.expect("a go 1.1s", "b go 3.1s")
	})
}

// A call that waits for more than the new burst is refused, and the calls behind it
// move.
func TestSmallerBurstRefusesWhatItCannotHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 5)
		q := newLine(t, l)
		l.AllowN(time.Now(), 5)
		q.join("a", 5)
		q.join("b", 1)
		l.SetBurst(2)
		q.join("c", 5)
		q.join("d", 2)
		time.Sleep(time.Minute)
		q.expect("a over_burst 0s", "c over_burst 0s", "b go 100ms", "d go 300ms")
		tokens(t, l, 2)
	})
}

// MaxWait is no deadline of the caller's: a call that cannot keep it is refused as
// over the rate, also if that is known only later.
func TestChangeBeyondMaxWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 1), rate.Config{MaxWait: time.Second})
		l.Allow()
		q := newLine(t, l)
		q.join("a", 1)
		q.join("b", 1)
		time.Sleep(tick / 2)
		l.SetLimit(1)
		time.Sleep(time.Minute)
		q.expect("b over_rate 50ms", "a go 550ms")
	})
}

// No call waits longer than MaxWait, even if others turn out to cost more than
// was thought.
func TestDebtBeyondMaxWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 1), rate.Config{MaxWait: 2 * tick, MaxDebt: 100})
		l.Allow()
		q := newLine(t, l)
		q.join("a", 1)
		q.joinWithin(3*tick, "b", 1)
		l.Settle(1, 11)
		time.Sleep(3 * tick)
		synctest.Wait()
		if l.Waiting() != 0 {
			t.Errorf("%d wait after MaxWait: %q", l.Waiting(), q.answers())
		}
		time.Sleep(time.Minute)
	})
}

// A debt that is more than can be counted is a denial, and blocks no call.
func TestDebtBeyondCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slow := range []rate.Limit{1e-6, 1e-7, 1e-8, 1e-9} { // one event in 12 days to 32 years
			l := rate.NewLimiter(1000, 5)
			for range 10_000 {
				l.Reserve()
			}
			l.SetLimit(slow)
			r := l.Reserve()
			if r.Cancel(); l.Allow() || l.Take(1).OK || l.Settle(2, 1) != 1 || l.Tokens() > -10 {
				t.Errorf("%v/s: %v tokens: want thousands owed", slow, l.Tokens())
			}
			l.SetLimit(1000)
			time.Sleep(time.Minute)
			if !l.Allow() {
				t.Errorf("after %v/s: %v tokens: want them paid after a minute", slow, l.Tokens())
			}
		}
	})
}
