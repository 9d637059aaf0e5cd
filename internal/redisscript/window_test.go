package redisscript_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/redisscript"
)

func newWindow(t *testing.T, k redisscript.WindowKind, limit int, period time.Duration) redisscript.Quota {
	t.Helper()
	q, err := redisscript.NewWindow(k, limit, period)
	testrig.Must(t, err)
	return q
}

func TestNoWindow(t *testing.T) {
	for _, tt := range []struct {
		kind   redisscript.WindowKind
		limit  int
		period time.Duration
		ok     bool
	}{
		{redisscript.FixedWindow, 0, time.Millisecond, true},
		{redisscript.SlidingWindow, redisscript.MaxEvents, 1 << 50 * time.Microsecond, true},
		{0, 1, time.Second, false},
		{redisscript.SlidingWindow + 1, 1, time.Second, false},
		{redisscript.FixedWindow, -1, time.Second, false},
		{redisscript.FixedWindow, redisscript.MaxEvents + 1, time.Second, false},
		{redisscript.FixedWindow, 1, time.Millisecond - time.Microsecond, false},
		{redisscript.FixedWindow, 1, time.Second + 1, false},
		{redisscript.FixedWindow, 1, (1<<50 + 1) * time.Microsecond, false},
	} {
		if _, err := redisscript.NewWindow(tt.kind, tt.limit, tt.period); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestArgs(t *testing.T) {
	tokens, err := redisscript.NewQuota(gcra.Per(1, time.Millisecond, 10)) // 1000 units a token
	testrig.Must(t, err)
	slow, err := redisscript.NewQuota(gcra.Per(1, time.Second, 16))
	testrig.Must(t, err)
	window := newWindow(t, redisscript.SlidingWindow, 10, time.Second)
	for _, tt := range []struct {
		name string
		q    redisscript.Quota
		ask  redisscript.Take
		want []any
	}{
		{"tokens", tokens, redisscript.Take{N: 2, Least: 1, Debt: 5, Most: time.Second}, []any{int64(1), int64(1000), int64(15_000), int64(1_010_000), 2, 1}},
		{"a limit of its own", tokens.Within(4), redisscript.Take{N: 2, Least: 1, Most: time.Second}, []any{int64(1), int64(1000), int64(4000), int64(1_010_000), 2, 1}},
		{"one above the burst", tokens.Within(11), redisscript.Take{N: 2}, []any{int64(1), int64(1000), int64(10_000), int64(10_000), 2, 0}},
		{"a look under a limit of its own", tokens.Within(4), redisscript.Take{}, []any{int64(1), int64(1000), int64(10_000), int64(10_000), 0, 0}},
		{"no limit of its own", tokens.Within(0), redisscript.Take{N: 1}, []any{int64(1), int64(1000), int64(10_000), int64(10_000), 1, 0}},
		{"soft", tokens, redisscript.Take{N: 3, Least: 3, Soft: true}, []any{int64(1), int64(1000), int64(10_000), int64(10_000), 3, -4}},
		{"a window", window, redisscript.Take{N: 2, Least: 2, Debt: 3}, []any{0, int64(1e6), int64(13), 3, 2, 2}},
		{"another limit", window.Within(12), redisscript.Take{N: 2, Soft: true}, []any{0, int64(1e6), int64(12), 3, 2, -1}},
		{"a huge limit", window.Within(math.MaxInt), redisscript.Take{N: 1, Debt: math.MaxInt}, []any{0, int64(1e6), int64(2 * redisscript.MaxEvents), 3, 1, 0}},
		{"a look at a window", window, redisscript.Take{}, []any{0, int64(1e6), int64(1 << 50), 3, 0, 0}},
		{"a look at a window for an event", window, redisscript.Take{Spare: 1}, []any{0, int64(1e6), int64(9), 3, 0, 0}},
		{"a look for a token", tokens.Within(4), redisscript.Take{Spare: 1}, []any{int64(1), int64(1000), int64(3000), int64(10_000), 0, 0}},
		{"tokens that may be settled", tokens, redisscript.Take{N: 2, Least: 2, Settled: true}, []any{int64(1), int64(1000), int64(10_000), int64(10_000), 2, "2/1000"}},
		{"groups of a bucket that fills in 16 s", slow, redisscript.Take{N: 2, Least: 2, Settled: true}, []any{int64(1), int64(1_000_000), int64(16_000_000), int64(16_000_000), 2, "2/1000000"}},
		{"back", tokens, redisscript.Take{N: -2, Taken: time.Second, Remain: 1}, []any{int64(1), int64(1000), int64(1_000_000), int64(10_000), -2, 1}},
		{"back to a window", window, redisscript.Take{N: -2, Taken: time.Second, Remain: 1}, []any{0, int64(1e6), int64(1_000_000), 3, -2, 1}},
	} {
		if got := tt.q.Args(nil, &tt.ask); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	defer func() {
		if p := recover(); p != "redisscript: a reservation in a window" {
			t.Errorf("a window of tomorrow: panic %v", p)
		}
	}()
	window.Args(nil, &redisscript.Take{N: 1, Ahead: time.Second})
}

// A reply about windows and tokens is read as packages window and gcra decide, each by itself.
func TestMixedReply(t *testing.T) {
	const now = 1_764_000_000_250_000 // a quarter of a second into the window
	tokens, err := redisscript.NewQuota(gcra.Per(1, time.Second, 10))
	testrig.Must(t, err)
	clock, sliding := newWindow(t, redisscript.ClockWindow, 5, time.Second), newWindow(t, redisscript.SlidingWindow, 10, time.Second)
	takes := []redisscript.Take{{N: 1, Least: 1}, {N: 2, Least: 2}, {N: 4, Least: 4}, {N: 1, Least: 1}, {N: 6, Least: 6, Soft: true}}
	quotas := []*redisscript.Quota{&tokens, &clock, &sliding, &clock, &clock}
	reply := []int64{now, 0,
		2e6, 1, 6, 1, 3, 3, 0, 1, 0, -1 << 52,
		0, 0, 1_764_000_001_000_000, 0, 1_764_000_000_000_000, 5, 1_764_000_001_000_000, 0, 1_764_000_001_000_000, 0}
	r, err := redisscript.ReadReply(reply, quotas...)
	testrig.Must(t, err)
	for i, want := range []weir.Decision{
		{OK: true, Remaining: 8, ResetAfter: 2 * time.Second},
		{RetryAfter: 750 * time.Millisecond, ResetAfter: 750 * time.Millisecond},
		{Remaining: 3, RetryAfter: 150 * time.Millisecond, ResetAfter: 1750 * time.Millisecond},
		{OK: true, Remaining: 5, ResetAfter: 750 * time.Millisecond},
		{Remaining: 5, RetryAfter: weir.Never, ResetAfter: 750 * time.Millisecond},
	} {
		if got := r.Decision(i, quotas[i], &takes[i]); got != want {
			t.Errorf("key %d: %+v, want %+v", i, got, want)
		}
		if used := []int{2, 6, 7, 0, 0}[i]; r.Used(i, quotas[i]) != used || r.Taken(i) != 0 {
			t.Errorf("key %d: %d used, %d taken: want %d, none", i, r.Used(i, quotas[i]), r.Taken(i), used)
		}
	}
	for _, wrong := range [][]int64{reply[:12], reply[:21], append(slices.Clone(reply), 0)} {
		if _, err := redisscript.ReadReply(wrong, quotas...); err == nil {
			t.Errorf("%d numbers are a reply for %d keys", len(wrong), len(quotas))
		}
	}
}

// A Take of windows that was denied is granted after Until, and no sooner.
func TestUntil(t *testing.T) {
	const start, period = 1_764_000_000_000_000, 1_000_000
	for _, tt := range []struct {
		used, last, at int64
		ask            redisscript.Take
		want           time.Duration
	}{
		{10, 0, 250_000, redisscript.Take{N: 1, Least: 1}, 850 * time.Millisecond}, // in the next window
		{10, 0, 250_000, redisscript.Take{N: 1, Debt: 5}, 0},
		{16, 0, 250_000, redisscript.Take{N: 1, Debt: 5}, 812_500 * time.Microsecond},
		{0, 10, 500_000, redisscript.Take{N: 6, Least: 6}, 100 * time.Millisecond},
		{0, 10, 500_000, redisscript.Take{N: 16, Least: 16, Debt: 5}, weir.Never},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			q := newWindow(t, redisscript.SlidingWindow, 10, period*time.Microsecond)
			r, err := redisscript.ReadReply([]int64{start + tt.at, 0, tt.used, 0, start, tt.last}, &q)
			testrig.Must(t, err)
			if got := r.Until(0, &q, &tt.ask); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
