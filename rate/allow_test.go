package rate_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

func TestAllow(t *testing.T) {
	for name, tt := range map[string]struct {
		limit rate.Limit
		burst int
		story script
	}{
		"a burst of one": {10, 1, script{
			holds(0, 1), allow(0, 1), holds(0, 0), deny(0, 1),
			deny(0.5, 1), holds(0.5, 0.5),
			allow(1, 1), deny(1, 1),
			holds(2, 1), deny(2, 2), holds(2, 1), allow(2, 1), deny(2, 1),
		}},
		"a burst of three": {10, 3, script{
			holds(0, 3), allow(0, 2), deny(0, 2), allow(0, 1), deny(0, 1),
			holds(1, 1), deny(1, 4),
			holds(2, 2), allow(2, 1), holds(3, 2), allow(3, 1), allow(4, 1), allow(4, 1), deny(4, 1),
			holds(9, 3), allow(9, 3), allow(9, 0), holds(9, 0),
		}},
		"never more than the burst, after any time": {10, 3, script{
			allow(0, 3), holds(1e9, 3), deny(1e9, 4), allow(1e9, 3), deny(1e9, 1),
		}},
		"no burst allows nothing but nothing": {10, 0, script{
			holds(0, 0), deny(0, 1), deny(1e6, 1), allow(0, 0),
		}},
		"a negative burst is none": {10, -3, script{holds(0, 0), deny(0, 1), refuse(0, 1)}},
		"no limit needs no burst": {rate.Inf, 0, script{
			allow(0, 1), allow(0, math.MaxInt), reserve("a", 0, 1000, 0), cancel("a", 0), allow(0, 1),
		}},
		"a rate of zero has its burst once": {0, 2, script{
			allow(0, 1), holds(1e6, 1), allow(1e6, 1), deny(1e9, 1),
		}},
		"a negative rate, too": {-1, 1, script{allow(0, 1), deny(1e9, 1)}},
		"a tiny rate, too":     {1e-10, 1, script{allow(0, 1), deny(0, 1), deny(1e6, 1)}},
		// 1 - 1.3·0.7692307692307693 must not be less than nothing by rounding.
		"an odd rate is not rounded away": {0.7692307692307693, 1, script{allow(0, 1), deny(12.9, 1), allow(13, 1)}},
		"0 looks, and is denied in debt only": {10, 2, script{
			allow(0, 2), allow(0, 0), reserve("a", 0, 1, 1), deny(0, 0), allow(1, 0),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, rate.NewLimiter(tt.limit, tt.burst), tt.story)
		})
	}
}

// golang.org/x/time/rate winds its clock back here, and refills the same
// second once more each time.
func TestOlderTimeRefillsNothingTwice(t *testing.T) {
	play(t, rate.NewLimiter(10, 3), script{
		allow(20, 3), deny(20, 1),
		deny(0, 1), holds(0, -20), // it has not come in yet, then
		deny(20, 1),
		allow(21, 1), deny(1, 1), deny(21, 1), deny(20.5, 1),
		holds(22, 1), allow(22, 1), deny(22, 1),
	})
	play(t, rate.NewLimiter(10, 3), script{
		reserve("a", 20, 3, 20),
		reserve("older", 10, 1, 21), // not before the others' tokens have come back
		reserve("b", 20, 1, 22),
		cancel("older", 5),
		setLimit(10, 10), setBurst(10, 3), // what has passed is not refilled by a change either
		deny(22, 1), allow(23, 1), deny(23, 1),
	})
}

// Whatever came late is no chance to take a burst twice.
func TestOlderTimesAmongOthers(t *testing.T) {
	l := rate.NewLimiter(10, 5)
	n := 0
	for i := range 1000 {
		for _, lag := range []float64{0, 1, 7, 100} {
			for l.AllowN(at(float64(i)-lag), 1) {
				n++
			}
		}
	}
	if want := 5 + 999; n != want {
		t.Errorf("%d in 999 ticks: want %d", n, want)
	}
}

func TestZeroLimiter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var l rate.Limiter
		if l.Allow() || l.Tokens() != 0 || l.Limit() != 0 || l.Burst() != 0 || l.Reserve().OK() || l.Waiting() != 0 {
			t.Error("want it to deny everything")
		}
		if d := l.Take(1); d.OK || d.RetryAfter != weir.Never {
			t.Errorf("%+v: want never", d)
		}
		q := newLine(t, &l)
		q.join("a", 1)
		q.expect("a over_burst 0s")

		l.SetBurst(2)
		q.join("b", 1)
		q.expect("a over_burst 0s")
		l.SetLimit(10) // starts without tokens
		time.Sleep(time.Second)
		q.expect("a over_burst 0s", "b go 100ms")
		tokens(t, &l, 2)
		if !l.AllowN(time.Now(), 2) || l.Allow() {
			t.Error("want a burst of two")
		}
	})
}

func TestSetLimitFromZero(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(0, 1)
		if !l.Allow() || l.Allow() {
			t.Error("want one event, once")
		}
		time.Sleep(time.Hour)
		l.SetLimit(10)
		tokens(t, l, 0)
		q := newLine(t, l)
		q.join("a", 1)
		time.Sleep(time.Second)
		q.expect("a go 100ms")
	})
}

func TestTake(t *testing.T) {
	yes := func(remaining int, reset float64) weir.Decision {
		return weir.Decision{OK: true, Remaining: remaining, ResetAfter: ticks(reset)}
	}
	no := func(remaining int, retry time.Duration, reset float64) weir.Decision {
		return weir.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: ticks(reset)}
	}
	bubble(t, func(t *testing.T) {
		l := rate.New(gcra.Per(10, time.Second, 3), rate.Config{})
		for i, s := range []struct {
			after float64
			n     int
			want  weir.Decision
		}{
			{0, 0, yes(3, 0)},
			{0, 2, yes(1, 2)},
			{0, 2, no(1, tick, 2)},
			{0, 4, no(1, weir.Never, 2)},
			{0.5, 2, no(1, tick/2, 1.5)},
			{0.5, 2, yes(0, 3)},
			{0, 1, no(0, tick, 3)},
		} {
			time.Sleep(ticks(s.after))
			if got := l.Take(s.n); got != s.want {
				t.Errorf("step %d: %+v: want %+v", i, got, s.want)
			}
		}
	})
	bubble(t, func(t *testing.T) {
		l := rate.NewLimiter(10, 2)
		for _, want := range []weir.Decision{yes(1, 1), yes(0, 2), no(0, tick, 2)} {
			if got := l.Take(1); got != want {
				t.Errorf("%+v: want %+v", got, want)
			}
		}
		time.Sleep(l.Take(1).RetryAfter - 1)
		if d := l.Take(1); d.OK || d.RetryAfter != 1 {
			t.Errorf("a nanosecond early: %+v", d)
		}
		time.Sleep(time.Nanosecond)
		if d := l.Take(1); !d.OK {
			t.Errorf("on time: %+v", d)
		}
	})
	if d := rate.NewLimiter(rate.Inf, 0).Take(7); d != (weir.Decision{OK: true, Remaining: math.MaxInt}) {
		t.Errorf("no limit: %+v", d)
	}
}

func TestEvery(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		want     rate.Limit
	}{
		{0, rate.Inf}, {-1, rate.Inf}, {math.MinInt64, rate.Inf},
		{1, 1e9}, {time.Microsecond, 1e6}, {time.Millisecond, 1e3}, {tick, 10}, {time.Second, 1},
		{2 * time.Second, 0.5}, {2500 * time.Millisecond, 0.4}, {10 * time.Second, 0.1},
		{math.MaxInt64, 1e9 / rate.Limit(math.MaxInt64)},
	} {
		if got := rate.Every(tt.interval); math.Abs(float64(got/tt.want)-1) > 1e-12 {
			t.Errorf("%v: %v: want %v", tt.interval, got, tt.want)
		}
	}
}

// Every round trip from an interval gives exactly that interval.
func TestEveryIsExact(t *testing.T) {
	for _, interval := range []time.Duration{1, 3, 7, 999, time.Millisecond / 3, 7 * time.Second / 9, time.Hour, 17 * time.Hour / 13} {
		l := rate.NewLimiter(rate.Every(interval), 1)
		for i := range 100 {
			if when := start.Add(time.Duration(i) * interval); !l.AllowN(when, 1) || l.AllowN(when.Add(interval-1), 1) {
				t.Errorf("every %v: event %d is not on time", interval, i)
			}
		}
	}
}

func TestConstructors(t *testing.T) {
	for name, tt := range map[string]struct {
		l     *rate.Limiter
		limit rate.Limit
		burst int
		full  float64
	}{
		"NewLimiter":     {rate.NewLimiter(2.5, 7), 2.5, 7, 7},
		"without limit":  {rate.NewLimiter(rate.Inf, 7), rate.Inf, 7, 7},
		"New":            {rate.New(gcra.Per(30, time.Minute, 9), rate.Config{}), 0.5, 9, 9},
		"New, depleting": {rate.New(gcra.Per(0, time.Minute, 9), rate.Config{}), 0, 9, 9},
		"New, without":   {rate.New(gcra.Unlimited(), rate.Config{}), rate.Inf, math.MaxInt, math.MaxInt},
	} {
		if tt.l.Limit() != tt.limit || tt.l.Burst() != tt.burst || tt.l.Tokens() != tt.full {
			t.Errorf("%s: %v, burst %d, %v tokens: want %v, %d, %v", name,
				tt.l.Limit(), tt.l.Burst(), tt.l.Tokens(), tt.limit, tt.burst, tt.full)
		}
	}
}

// golang.org/x/time/rate fills its bucket with what is asked for too little.
func TestNegativeCostPanics(t *testing.T) {
	for name, f := range map[string]func(l *rate.Limiter){
		"AllowN":   func(l *rate.Limiter) { l.AllowN(start, -1) },
		"Take":     func(l *rate.Limiter) { l.Take(-1) },
		"ReserveN": func(l *rate.Limiter) { l.ReserveN(start, -1) },
		"WaitN":    func(l *rate.Limiter) { _ = l.WaitN(t.Context(), -1) },
		"Acquire":  func(l *rate.Limiter) { _, _ = l.Acquire(t.Context(), -1) },
		"Settle":   func(l *rate.Limiter) { l.Settle(1, -1) },
	} {
		for _, l := range []*rate.Limiter{rate.NewLimiter(10, 1), rate.NewLimiter(rate.Inf, 0), new(rate.Limiter)} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s with limit %v: want a panic", name, l.Limit())
					}
				}()
				f(l)
			}()
			if l.Waiting() != 0 || l.Tokens() > float64(l.Burst()) {
				t.Errorf("%s: it has left a trace", name)
			}
		}
	}
}

// A change of the burst at an older time refills no span of time twice.
func TestOlderChangeRefillsNothingTwice(t *testing.T) {
	play(t, rate.NewLimiter(10, 3), script{
		allow(100, 3), setBurst(0, 5), deny(100, 1), allow(101, 1), deny(101, 1),
	})
}
