package adaptive_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/adaptive"
)

func budget(t testing.TB, cfg adaptive.BudgetConfig) *adaptive.Budget {
	t.Helper()
	b, err := adaptive.NewBudget(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBudget(t *testing.T) {
	type step struct {
		at       time.Duration
		requests int
		retries  int // that are allowed then; -1: none is asked for
	}
	pure := adaptive.BudgetConfig{MinPerSecond: -1}
	for _, tt := range []struct {
		rule  string
		cfg   adaptive.BudgetConfig
		steps []step
	}{
		// "Each client keeps track of the ratio of requests that correspond to
		// retries. A request will only be retried as long as this ratio is
		// below 10%."
		{"a retry for ten requests", pure, []step{{0, 9, 0}, {0, 1, 1}, {s, 9, 0}, {s, 1, 1}}},
		{"they may be saved up", pure, []step{{0, 70, -1}, {9 * s, 0, 7}}},
		{"for the window, ten seconds", pure, []step{{0, 70, -1}, {10 * s, 0, 0}}},
		{"a retry is spent for the window, too", pure, []step{{0, 10, 1}, {5 * s, 10, 1}, {10 * s, 9, 0}, {10 * s, 1, 1}}},
		{"nothing asked, nothing retried", pure, []step{{0, 0, 0}}},
		{"another ratio", adaptive.BudgetConfig{Ratio: 0.5, MinPerSecond: -1}, []step{{0, 3, 1}, {0, 1, 1}}},
		{"another window", adaptive.BudgetConfig{Window: 60 * s, MinPerSecond: -1}, []step{{0, 20, -1}, {60*s - 1, 0, 2}, {60 * s, 9, 0}}},
		{"by default one a second besides", adaptive.BudgetConfig{}, []step{{0, 0, 10}, {10*s - 1, 0, 0}, {10 * s, 0, 10}}},
		{"it comes on top", adaptive.BudgetConfig{}, []step{{0, 100, 20}}},
		{"another floor", adaptive.BudgetConfig{MinPerSecond: 0.25}, []step{{0, 0, 2}, {0, 5, 1}}},
		{"a floor of less than one in a window is none by itself", adaptive.BudgetConfig{MinPerSecond: 0.05}, []step{{0, 0, 0}, {0, 5, 1}}},
		{"an endless floor allows everything", adaptive.BudgetConfig{MinPerSecond: math.MaxFloat64}, []step{{0, 0, 1000}}},
		{"time that goes backwards stands still", pure, []step{{20 * s, 10, -1}, {0, 10, -1}, {30*s - 1, 0, 2}, {30 * s, 9, 0}}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			b := budget(t, tt.cfg)
			for i, st := range tt.steps {
				for range st.requests {
					b.Request(st.at)
				}
				n := 0
				for st.retries >= 0 && n < 1000 && b.Retry(st.at) {
					n++
				}
				if n != max(st.retries, 0) {
					t.Errorf("step %d: %d retries: want %d", i, n, st.retries)
				}
			}
		})
	}
}

func TestBudgetStats(t *testing.T) {
	b := budget(t, adaptive.BudgetConfig{MinPerSecond: 0.1})
	for range 25 {
		b.Request(0)
	}
	for range 5 {
		b.Retry(0)
	}
	want := adaptive.BudgetStats{Requests: 25, Retries: 3, Allowed: 3, Retried: 3, Exhausted: 2}
	if got := b.Stats(0); got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
	want = adaptive.BudgetStats{Allowed: 1, Retried: 3, Exhausted: 2}
	if got := b.Stats(10 * s); got != want {
		t.Errorf("%+v: want %+v", got, want)
	}
}

func TestBudgetConfig(t *testing.T) {
	for _, tt := range []struct {
		cfg  adaptive.BudgetConfig
		want string // in the error; empty: none
	}{
		{adaptive.BudgetConfig{}, ""},
		{adaptive.BudgetConfig{Ratio: 1, MinPerSecond: math.Inf(-1), Window: 1}, ""},
		{adaptive.BudgetConfig{Ratio: 1.1}, "throttle: Ratio = 1.1: must be in (0, 1]"},
		{adaptive.BudgetConfig{Ratio: -0.1}, "Ratio = -0.1"},
		{adaptive.BudgetConfig{Ratio: math.NaN()}, "Ratio = NaN"},
		{adaptive.BudgetConfig{MinPerSecond: math.NaN()}, "MinPerSecond = NaN: must be finite"},
		{adaptive.BudgetConfig{MinPerSecond: math.Inf(1)}, "MinPerSecond = +Inf"},
		{adaptive.BudgetConfig{Window: -1}, "Window = -1ns: must be >= 0"},
	} {
		b, err := adaptive.NewBudget(tt.cfg)
		check(t, tt.want, err, tt.cfg.Validate())
		if (b == nil) != (err != nil) {
			t.Errorf("%+v: %v, %v", tt.cfg, b, err)
		}
	}
}

func TestBackoff(t *testing.T) {
	const most = time.Duration(math.MaxInt64)
	for _, tt := range []struct {
		rule       string
		base, most time.Duration
		retry      int
		u          float64
		want       time.Duration
	}{
		{"the first wait is within the base", s, 10 * s, 0, 0.5, s / 2},
		{"the next within twice of it", s, 10 * s, 1, 0.5, s},
		{"and so on", s, 10 * s, 3, 0.5, 4 * s},
		{"up to the most", s, 10 * s, 4, 0.5, 5 * s},
		{"for ever", s, 10 * s, math.MaxInt, 0.5, 5 * s},
		{"a wait may be none at all", s, 10 * s, 3, 0, 0},
		{"or all but the whole", s, 10 * s, 0, sure, s - 1},
		{"the most may be less than the base", 10 * s, s, 0, 0.5, s / 2},
		{"as long as time", 1, most, 62, 0.5, 1 << 61},
		{"and no longer", 3, most, 62, 0.5, 1 << 62},
		{"not by far", most, most, 63, sure, 1<<63 - 1<<10},
		{"no base, no wait", 0, 10 * s, 62, sure, 0},
		{"a negative one neither", -s, 10 * s, 2, sure, 0},
		{"nor with a negative most", s, -s, 2, sure, 0},
		{"a negative retry is the first", s, 10 * s, -1, 0.5, s / 2},
	} {
		if got := adaptive.Backoff(tt.base, tt.most, tt.retry, tt.u); got != tt.want {
			t.Errorf("%s: %v: want %v", tt.rule, got, tt.want)
		}
	}
}

// A reservation counts against the budget until it is settled.
func TestReservation(t *testing.T) {
	b := budget(t, adaptive.BudgetConfig{MinPerSecond: -1})
	for range 20 {
		b.Request(0)
	}
	if !b.Reserve(0) || !b.Reserve(s) || b.Reserve(s) {
		t.Error("want exactly two retries reserved")
	}
	b.Settle(2*s, false)
	if !b.Retry(2*s) || b.Retry(2*s) {
		t.Error("want the retry that was given up to be available again")
	}
	b.Settle(20*s, true) // its requests have left the window
	if st := b.Stats(20 * s); st.Retries != 1 || st.Retried != 2 || st.Exhausted != 2 {
		t.Errorf("%+v: want the reserved retry spent", st)
	}
}
