package limit_test

import (
	"slices"
	"testing"

	"github.com/weir-go/weir/limit"
)

func newGradient2(t *testing.T, cfg limit.Config) limit.Algorithm {
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
	all := limit.Config{Initial: 1000, Min: 1, Max: 2000}
	small := limit.Config{Min: 1}
	for _, tt := range []struct {
		rule    string
		cfg     limit.Config
		lessons []lesson
	}{
		{"as fast as ever: a fifth of +4", small, []lesson{
			{10, 20, ok, 20, limit.Kept}, // 20.8
			{10, 20, ok, 21, limit.Grown},
			{10, 21, ok, 22, limit.Grown}, // 22.4
			{10, 22, ok, 23, limit.Grown}, // 23.2
		}},
		{"one and a half times as slow is as fast", all, append(unused(10, 1000, 1),
			lesson{20, 1000, ok, 1000, limit.Kept}, // 1000.8: the long RTT is 15, and 1.5 · 15/20 > 1
			lesson{20, 1000, ok, 1001, limit.Grown},
		)},
		{"slower: a fifth of the way to 1000 · 1.5 · 30/50 + 4 = 904", all, append(unused(10, 1000, 1),
			lesson{50, 1000, ok, 980, limit.Queue}, // the long RTT is (10 + 50)/2
		)},
		{"it rests where that makes no difference: 40 · 0.9 + 4", limit.Config{Initial: 40}, append(unused(10, 40, 1),
			lesson{50, 40, ok, 40, limit.Kept},
		)},
		{"below, it grows though work is slow: 30 · 0.9 + 4", limit.Config{Initial: 30}, append(unused(10, 30, 1),
			lesson{50, 30, ok, 30, limit.Kept}, lesson{50, 30, ok, 31, limit.Grown},
		)},
		{"never towards less than half, and four: 504", all, append(unused(10, 1000, 9),
			lesson{190, 1000, ok, 900, limit.Queue}, // 1.5 · 28/190 = 0.22
		)},
		{"the mean of ten: towards 1000 · 1.5 · 11/20 + 4 = 829", all, append(unused(10, 1000, 9),
			lesson{20, 1000, ok, 965, limit.Queue},
		)},
		// The long RTT is 10 + 601 · 2/601 = 12, and then 12.06. The mean would be 62.
		{"of more than ten, each weighs 2/601: towards 1000 · 1.5 · 12.06/30 + 4 = 607", all, slices.Concat(unused(10, 1000, 10), unused(611, 1000, 1),
			[]lesson{{30, 1000, ok, 921, limit.Queue}},
		)},
		// The long RTT is 0.95 · 99.83, and then 95.16.
		{"a long RTT of twice the RTT falls: towards 1000 · 1.5 · 95.16/190 + 4 = 755.2", all, slices.Concat(unused(100, 1000, 10), unused(49, 1000, 1),
			[]lesson{{190, 1000, ok, 951, limit.Queue}},
		)},
		{"up to twice it does not: towards 1000 · 1.5 · 100.14/190 + 4 = 794.6", all, slices.Concat(unused(100, 1000, 10), unused(51, 1000, 1),
			[]lesson{{190, 1000, ok, 958, limit.Queue}},
		)},
		{"a limit less than half in use stays", small, []lesson{
			{10, 9, ok, 20, limit.Kept}, {900, 9, ok, 20, limit.Kept}, {10, 10, ok, 20, limit.Kept}, {10, 11, ok, 21, limit.Grown},
		}},
		{"a drop is a success", small, []lesson{
			{10, 20, dropped, 20, limit.Kept}, {10, 20, timedOut, 21, limit.Grown},
		}},
		{"what says nothing about load is not learned", all, []lesson{
			{10, 1000, ignored, 1000, limit.Kept}, {10, 1000, left, 1000, limit.Kept},
			{50, 1000, ok, 1000, limit.Kept}, // 1000.8, else 980
		}},
		{"nor is what took no time, or less", all, []lesson{
			{0, 1000, ok, 1000, limit.Kept}, {-1e6, 1000, ok, 1000, limit.Kept}, {50, 1000, ok, 1000, limit.Kept},
		}},
		{"it stays below Max", limit.Config{Max: 21}, []lesson{
			{10, 20, ok, 20, limit.Kept}, {10, 20, ok, 21, limit.Grown}, {10, 21, ok, 21, limit.Kept},
		}},
		{"and above Min", limit.Config{Initial: 21}, append(unused(10, 21, 9),
			lesson{190, 21, ok, 20, limit.Queue}, lesson{190, 20, ok, 20, limit.Kept},
		)},
	} {
		t.Run(tt.rule, func(t *testing.T) { teach(t, newGradient2(t, tt.cfg), tt.lessons) })
	}
}

// The weaknesses that the documentation tells of: it never comes down to the
// ten that are right, and climbs away from them.
func TestGradient2Drifts(t *testing.T) {
	g := newGradient2(t, limit.Config{Initial: 10, Min: 1})
	if n := overload(g, 10_000); n != 200 {
		t.Errorf("limit %d in the end", n)
	}
}
