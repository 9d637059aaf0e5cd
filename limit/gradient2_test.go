package limit_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/limit"
)

func newGradient2(t *testing.T, cfg limit.Gradient2Config) limit.Algorithm {
	t.Helper()
	g, err := limit.NewGradient2(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGradient2(t *testing.T) {
	// A limit that is not in use stays, but the long RTT is learned.
	unused := func(rtt float64, n, times int) []lesson {
		return slices.Repeat([]lesson{{rtt, 0, ok, n, limit.Kept}}, times)
	}
	all := limit.Gradient2Config{Config: limit.Config{Initial: 100, Min: 1}, Smoothing: 1}
	short := all
	short.LongWindow = 3 // a new RTT weighs 2 / (3 + 1)
	long := all
	long.Initial, long.LongWindow = 102, 1e9 // and here it weighs nothing
	fifth := limit.Gradient2Config{Config: limit.Config{Min: 1}}
	for _, tt := range []struct {
		rule    string
		cfg     limit.Gradient2Config
		lessons []lesson
	}{
		{"as fast as ever: +4", all, []lesson{
			{10, 100, ok, 104, limit.Grown}, {10, 104, ok, 108, limit.Grown},
		}},
		{"a fifth of that at a time", fifth, []lesson{
			{10, 20, ok, 20, limit.Kept}, // 20.8
			{10, 20, ok, 21, limit.Grown},
			{10, 21, ok, 22, limit.Grown}, // 22.4
			{10, 22, ok, 23, limit.Grown}, // 23.2
		}},
		{"one and a half times as slow is as fast", all, append(unused(10, 100, 1),
			lesson{20, 100, ok, 104, limit.Grown}, // the long RTT is 15: 1.5 · 15/20 > 1
		)},
		{"slower: 100 · 1.5 · 30/50 + 4", all, append(unused(10, 100, 1),
			lesson{50, 100, ok, 94, limit.Queue}, // the long RTT is (10 + 50)/2
		)},
		{"it rests where that makes no difference: 40 · 0.9 + 4", limit.Gradient2Config{Config: limit.Config{Initial: 40}, Smoothing: 1}, append(unused(10, 40, 1),
			lesson{50, 40, ok, 40, limit.Kept},
		)},
		{"below, it grows though work is slow: 30 · 0.9 + 4", limit.Gradient2Config{Config: limit.Config{Initial: 30}, Smoothing: 1}, append(unused(10, 30, 1),
			lesson{50, 30, ok, 31, limit.Grown},
		)},
		{"never by more than half, and four", all, append(unused(10, 100, 9),
			lesson{190, 100, ok, 54, limit.Queue}, // 1.5 · 28/190 = 0.22
		)},
		{"the mean of ten: 100 · 1.5 · 11/20 + 4", short, append(unused(10, 100, 9),
			lesson{20, 100, ok, 86, limit.Queue},
		)},
		{"of more than ten, the last weighs more: 100 · 1.5 · 30/50 + 4", short, append(unused(10, 100, 10),
			lesson{50, 100, ok, 94, limit.Queue}, // (10 + 50)/2 again, not 150/11
		)},
		{"a long RTT of twice the RTT falls: 102 · 1.5 · 95/190 + 4", long, slices.Concat(unused(100, 102, 10), unused(49, 102, 1),
			[]lesson{{190, 102, ok, 80, limit.Queue}},
		)},
		{"up to twice it does not: 102 · 1.5 · 100/190 + 4", long, slices.Concat(unused(100, 102, 10), unused(51, 102, 1),
			[]lesson{{190, 102, ok, 84, limit.Queue}},
		)},
		{"a limit less than half in use stays", all, []lesson{
			{10, 49, ok, 100, limit.Kept}, {900, 49, ok, 100, limit.Kept}, {10, 50, ok, 104, limit.Grown},
		}},
		{"a drop is a success", all, []lesson{
			{10, 100, dropped, 104, limit.Grown}, {10, 104, timedOut, 108, limit.Grown},
		}},
		{"what says nothing about load is not learned", all, []lesson{
			{10, 100, ignored, 100, limit.Kept}, {10, 100, left, 100, limit.Kept},
			{50, 100, ok, 104, limit.Grown}, // else 94
		}},
		{"nor is what took no time, or less", all, []lesson{
			{0, 100, ok, 100, limit.Kept}, {-1e6, 100, ok, 100, limit.Kept}, {50, 100, ok, 104, limit.Grown},
		}},
		{"it stays below Max", limit.Gradient2Config{Config: limit.Config{Max: 22}, Smoothing: 1}, []lesson{
			{10, 20, ok, 22, limit.Grown}, {10, 22, ok, 22, limit.Kept},
		}},
		{"and above Min", limit.Gradient2Config{Config: limit.Config{Initial: 21}, Smoothing: 1}, append(unused(10, 21, 9),
			lesson{190, 21, ok, 20, limit.Queue}, lesson{190, 20, ok, 20, limit.Kept},
		)},
	} {
		t.Run(tt.rule, func(t *testing.T) { teach(t, newGradient2(t, tt.cfg), tt.lessons) })
	}
}

// The weaknesses that the documentation tells of: it never comes down to the
// ten that are right, and climbs away from them.
func TestGradient2Drifts(t *testing.T) {
	g := newGradient2(t, limit.Gradient2Config{Config: limit.Config{Initial: 10, Min: 1}, LongWindow: 60})
	if n := overload(g, 10_000); n != 200 {
		t.Errorf("limit %d in the end", n)
	}
}

func TestGradient2Defaults(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.Gradient2Config
		want int
	}{
		{limit.Gradient2Config{}, 20},
		{limit.Gradient2Config{Config: limit.Config{Max: 5}}, 5},
		{limit.Gradient2Config{Config: limit.Config{Min: 30}}, 30},
		{limit.Gradient2Config{Config: limit.Config{Min: 3000}}, 3000},
	} {
		if g := newGradient2(t, tt.cfg); g.Limit() != tt.want {
			t.Errorf("%+v: starts at %d: want %d", tt.cfg, g.Limit(), tt.want)
		}
	}
}

func TestGradient2Validate(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.Gradient2Config
		want string
	}{
		{limit.Gradient2Config{Config: limit.Config{Min: -1}}, "Min = -1: must be >= 1"},
		{limit.Gradient2Config{Config: limit.Config{Min: 5, Max: 4}}, "Max = 4: must be >= Min (5)"},
		{limit.Gradient2Config{Config: limit.Config{Max: -4}}, "Max = -4"},
		{limit.Gradient2Config{Config: limit.Config{Initial: 10}}, "Initial = 10: must be in [20, 200]"},
		{limit.Gradient2Config{Queue: -1}, "Queue = -1: must be >= 1"},
		{limit.Gradient2Config{Tolerance: 0.9}, "Tolerance = 0.9: must be >= 1"},
		{limit.Gradient2Config{Tolerance: math.NaN()}, "Tolerance = NaN"},
		{limit.Gradient2Config{Smoothing: 1.1}, "Smoothing = 1.1: must be in (0, 1]"},
		{limit.Gradient2Config{Smoothing: math.NaN()}, "Smoothing = NaN"},
		{limit.Gradient2Config{LongWindow: -1}, "LongWindow = -1: must be >= 1"},
	} {
		if _, err := limit.NewGradient2(tt.cfg); err == nil || !strings.HasPrefix(err.Error(), "limit: "+tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
	}
}
