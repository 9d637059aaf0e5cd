package limit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/limit"
)

const (
	ok       = weir.Success
	dropped  = weir.Dropped
	ignored  = weir.Ignored
	timedOut = outcome.TimedOut
	left     = outcome.Left
)

// A step is work that ran from start to end, in seconds, with so much in
// flight at its start.
type step struct {
	start, end int
	inflight   int
	outcome    weir.Outcome
	limit      int // afterwards
	cause      limit.Cause
}

func at(s int) time.Duration { return time.Duration(s) * time.Second }

func run(t *testing.T, cfg limit.Config, backoff float64, steps []step) {
	t.Helper()
	a, err := limit.NewAIMD(cfg, backoff)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		cause := a.Observe(limit.Sample{Start: at(s.start), End: at(s.end), Inflight: s.inflight, Outcome: s.outcome})
		if cause != s.cause || a.Limit() != s.limit {
			t.Errorf("step %d, %+v: limit %d, %v", i, s, a.Limit(), cause)
		}
	}
}

func TestAIMD(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		cfg     limit.Config
		backoff float64
		steps   []step
	}{
		{"a limit's worth of successes is worth one more", limit.Config{Initial: 3}, 0, []step{
			{0, 1, 3, ok, 3, limit.Kept},
			{0, 1, 3, ok, 3, limit.Kept},
			{0, 1, 3, ok, 4, limit.Grown},
			{1, 2, 4, ok, 4, limit.Kept},
			{1, 2, 4, ok, 4, limit.Kept},
			{1, 2, 4, ok, 4, limit.Kept},
			{1, 2, 4, ok, 5, limit.Grown},
		}},
		{"a drop takes its share", limit.Config{Initial: 100}, 0, []step{{0, 1, 100, dropped, 80, limit.Dropped}}},
		{"a burst of drops counts once: the others started before the decrease", limit.Config{Initial: 100}, 0, []step{
			{0, 1, 98, dropped, 80, limit.Dropped},
			{0, 1, 99, dropped, 80, limit.Kept},
			{0, 2, 100, dropped, 80, limit.Kept},
			{2, 3, 80, dropped, 64, limit.Dropped},
		}},
		{"work from before a decrease does not count towards growth either", limit.Config{Initial: 5}, 0, []step{
			{0, 2, 5, dropped, 4, limit.Dropped},
			{1, 3, 5, ok, 4, limit.Kept},
			{1, 3, 5, ok, 4, limit.Kept},
			{1, 3, 5, ok, 4, limit.Kept},
			{1, 3, 5, ok, 4, limit.Kept},
			{2, 3, 4, ok, 4, limit.Kept},
			{2, 3, 4, ok, 4, limit.Kept},
			{2, 3, 4, ok, 4, limit.Kept},
			{2, 3, 4, ok, 5, limit.Grown},
		}},
		{"a drop takes back the successes before it", limit.Config{Initial: 2, Min: 2}, 0, []step{
			{0, 1, 2, ok, 2, limit.Kept},
			{0, 1, 2, dropped, 2, limit.Kept},
			{1, 2, 2, ok, 2, limit.Kept},
			{1, 2, 2, ok, 3, limit.Grown},
		}},
		{"it does not grow while less than half of it is used", limit.Config{Initial: 3}, 0, []step{
			{0, 1, 1, ok, 3, limit.Kept},
			{0, 1, 1, ok, 3, limit.Kept},
			{0, 1, 1, ok, 3, limit.Kept},
			{0, 1, 1, ok, 3, limit.Kept},
			{0, 1, 2, ok, 3, limit.Kept},
			{0, 1, 2, ok, 3, limit.Kept},
			{0, 1, 2, ok, 4, limit.Grown},
		}},
		{"rounding does not hold a decrease up", limit.Config{Initial: 2}, 0.99, []step{
			{0, 1, 2, dropped, 1, limit.Dropped},
		}},
		{"nor does a backoff that is hardly one", limit.Config{Initial: 3}, math.Nextafter(1, 0), []step{
			{0, 1, 3, dropped, 2, limit.Dropped},
			{1, 2, 2, dropped, 1, limit.Dropped},
			{2, 3, 1, dropped, 1, limit.Kept},
		}},
		{"it stays above Min", limit.Config{Initial: 3, Min: 2}, 0.1, []step{
			{0, 1, 3, dropped, 2, limit.Dropped},
			{1, 2, 2, dropped, 2, limit.Kept},
		}},
		{"at Min too, a drop means that earlier work counts for nothing", limit.Config{Initial: 1}, 0, []step{
			{0, 5, 1, dropped, 1, limit.Kept},
			{4, 6, 1, ok, 1, limit.Kept},
			{5, 7, 1, ok, 2, limit.Grown},
		}},
		{"and below Max", limit.Config{Initial: 1, Max: 2}, 0, []step{
			{0, 1, 1, ok, 2, limit.Grown},
			{1, 2, 2, ok, 2, limit.Kept},
			{1, 2, 2, ok, 2, limit.Kept},
		}},
		{"what says nothing about load changes nothing", limit.Config{Initial: 2, MaxHealthyLatency: at(5)}, 0, []step{
			{0, 9, 2, ignored, 2, limit.Kept}, // not even if it was slow
			{8, 9, 2, ok, 2, limit.Kept},
			{8, 9, 2, ignored, 2, limit.Kept},
			{8, 9, 2, ok, 3, limit.Grown},
		}},
		{"what timed out was dropped", limit.Config{Initial: 100}, 0, []step{
			{0, 1, 100, timedOut, 80, limit.Dropped},
			{0, 2, 100, timedOut, 80, limit.Kept},
			{1, 3, 80, timedOut, 64, limit.Dropped},
		}},
		{"what timed out slowly was dropped, too", limit.Config{Initial: 10, MaxHealthyLatency: at(2)}, 0, []step{
			{0, 3, 10, timedOut, 8, limit.Dropped},
		}},
		{"what was left by its caller changes nothing", limit.Config{Initial: 2, MaxHealthyLatency: at(5)}, 0, []step{
			{0, 9, 2, left, 2, limit.Kept},
			{8, 9, 2, ok, 2, limit.Kept},
			{8, 9, 2, left, 2, limit.Kept},
			{8, 9, 2, ok, 3, limit.Grown},
		}},
		{"nor does an outcome that nobody knows", limit.Config{Initial: 1, MaxHealthyLatency: at(5)}, 0, []step{
			{0, 9, 1, 99, 1, limit.Kept},
		}},
		{"slow work counts as dropped", limit.Config{Initial: 10, MaxHealthyLatency: at(2)}, 0, []step{
			{0, 2, 10, ok, 10, limit.Kept},
			{0, 3, 10, ok, 8, limit.Slow},
			{2, 9, 10, ok, 8, limit.Kept}, // once per round trip, too
			{3, 9, 1, ok, 6, limit.Slow},  // used or not
		}},
		{"what was dropped late was dropped", limit.Config{Initial: 10, MaxHealthyLatency: at(2)}, 0, []step{
			{0, 3, 10, dropped, 8, limit.Dropped},
		}},
		{"unused growth is not saved up for later", limit.Config{Initial: 4}, 0, []step{
			{0, 1, 4, ok, 4, limit.Kept},
			{0, 1, 1, ok, 4, limit.Kept},
			{0, 1, 4, ok, 4, limit.Kept},
			{0, 1, 2, ok, 4, limit.Kept}, // just half is used enough
			{0, 1, 2, ok, 5, limit.Grown},
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) { run(t, tt.cfg, tt.backoff, tt.steps) })
	}
}

func TestBackoffIsInRange(t *testing.T) {
	for _, backoff := range []float64{1, -0.5, math.NaN()} {
		want := fmt.Sprintf("limit: backoff = %v: must be in (0, 1)", backoff)
		if _, err := limit.NewAIMD(limit.Config{}, backoff); err == nil || err.Error() != want {
			t.Errorf("%v: want %q", err, want)
		}
	}
}

// The bounds themselves are within bounds.
func TestAIMDExtremes(t *testing.T) {
	for _, cfg := range []limit.Config{
		{Min: 1, Max: 1}, {Min: 7, Max: 7, Initial: 7}, {Min: 7, Initial: 7}, {Max: 7, Initial: 7},
		{Max: math.MaxInt, Initial: math.MaxInt}, {},
	} {
		for _, backoff := range []float64{0, math.SmallestNonzeroFloat64} {
			a, err := limit.NewAIMD(cfg, backoff)
			if err != nil {
				t.Errorf("%+v: %v", cfg, err)
				continue
			}
			was := a.Limit()
			if a.Observe(limit.Sample{End: 1, Outcome: dropped}); a.Limit() > was || a.Limit() < max(cfg.Min, 1) {
				t.Errorf("%+v: limit %d to %d", cfg, was, a.Limit())
			}
		}
	}
}

func TestCause(t *testing.T) {
	for c, want := range map[limit.Cause]string{
		limit.Kept: "kept", limit.Grown: "grown", limit.Dropped: "dropped", limit.Slow: "slow", limit.Set: "set",
		limit.Queue: "queue", limit.Throughput: "throughput", limit.Floor: "floor", limit.Ceiling: "ceiling", limit.Idle: "idle",
		99: "unknown",
	} {
		if got := c.String(); got != want {
			t.Errorf("cause %d: %s: want %s", uint8(c), got, want)
		}
	}
}

func TestFixed(t *testing.T) {
	f := limit.Fixed(3)
	if cause := f.Observe(limit.Sample{End: at(9), Outcome: dropped}); cause != limit.Kept || f.Limit() != 3 {
		t.Errorf("limit %d, %v: a fixed limit stays", f.Limit(), cause)
	}
	if n := limit.Fixed(-1).Limit(); n != 0 {
		t.Errorf("limit %d: a negative one is zero", n)
	}
}
