package limit_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A lesson is one piece of work, and what the algorithm makes of it. rtt is in ms.
type lesson struct {
	rtt      float64
	inflight int
	outcome  weir.Outcome
	limit    int // afterwards
	cause    limit.Cause
}

func (l lesson) sample() limit.Sample {
	return limit.Sample{Start: at(9), End: at(9) + ms(l.rtt), Inflight: l.inflight, Outcome: l.outcome}
}

func ms(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }

func teach(t *testing.T, a limit.Algorithm, lessons []lesson) {
	t.Helper()
	for i, l := range lessons {
		if cause := a.Observe(l.sample()); cause != l.cause || a.Limit() != l.limit {
			t.Errorf("lesson %d, %+v: limit %d, %v", i, l, a.Limit(), cause)
		}
	}
}

func newVegas(t *testing.T, cfg limit.VegasConfig) limit.Algorithm {
	t.Helper()
	v, err := limit.NewVegas(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVegas(t *testing.T) {
	first := func(n int) lesson { return lesson{10, n, ok, n, limit.Kept} } // the least RTT is 10 ms
	for _, tt := range []struct {
		rule    string
		cfg     limit.VegasConfig
		lessons []lesson
	}{
		{"no queue, ⌈20 (1 − 10/10)⌉ = 0: +6", limit.VegasConfig{}, []lesson{
			first(20), {10, 20, ok, 26, limit.Grown}, {10, 26, ok, 32, limit.Grown},
		}},
		{"a queue of ⌈20 (1 − 10/10.5)⌉ = 1 is none: +6", limit.VegasConfig{}, []lesson{
			first(20), {10.5, 20, ok, 26, limit.Grown},
		}},
		{"a queue of ⌈20 (1 − 10/11)⌉ = 2: +1", limit.VegasConfig{}, []lesson{
			first(20), {11, 20, ok, 21, limit.Grown},
		}},
		{"a queue of 3 to 6 is what it wants", limit.VegasConfig{}, []lesson{
			first(20),
			{11.5, 20, ok, 20, limit.Kept}, // 2.6
			{12, 20, ok, 20, limit.Kept},   // 3.3
			{14, 20, ok, 20, limit.Kept},   // 5.7
		}},
		{"work slower than MaxHealthyLatency counts as dropped: −1", limit.VegasConfig{Config: limit.Config{MaxHealthyLatency: 12 * time.Millisecond}}, []lesson{
			first(20), {12, 20, ok, 20, limit.Kept}, {12.5, 20, ok, 19, limit.Dropped},
		}},
		{"a queue of ⌈20 (1 − 10/15)⌉ = 7: −1", limit.VegasConfig{}, []lesson{
			first(20), {15, 20, ok, 19, limit.Queue}, {15, 19, ok, 18, limit.Queue}, // 19/3 = 6.3
		}},
		{"from 100 on, steps are twice as large", limit.VegasConfig{Config: limit.Config{Initial: 100}}, []lesson{
			first(100), {10.2, 100, ok, 112, limit.Grown}, // 1.96
		}},
		{"and so are the thresholds: growth", limit.VegasConfig{Config: limit.Config{Initial: 100}}, []lesson{
			first(100), {10.3, 100, ok, 102, limit.Grown}, // 2.9
		}},
		{"rest", limit.VegasConfig{Config: limit.Config{Initial: 100}}, []lesson{
			first(100), {10.6, 100, ok, 100, limit.Kept}, {11.3, 100, ok, 100, limit.Kept}, // 5.7, 11.5
		}},
		{"and decrease", limit.VegasConfig{Config: limit.Config{Initial: 100}}, []lesson{
			first(100), {11.4, 100, ok, 98, limit.Queue}, // 12.3
		}},
		{"up to 99 they are not", limit.VegasConfig{Config: limit.Config{Initial: 99}}, []lesson{
			first(99), {10, 99, ok, 105, limit.Grown}, {10, 105, ok, 117, limit.Grown},
		}},
		{"from 1000 on they are three times as large", limit.VegasConfig{Config: limit.Config{Initial: 999, Max: 9999}}, []lesson{
			first(999), {10, 999, ok, 1011, limit.Grown}, {10, 1011, ok, 1029, limit.Grown}, {10, 999, dropped, 1026, limit.Dropped},
		}},
		{"at 1000 itself, too", limit.VegasConfig{Config: limit.Config{Initial: 1000, Max: 9999}}, []lesson{
			first(1000), {10, 1000, ok, 1018, limit.Grown},
		}},
		{"a limit less than half in use stays", limit.VegasConfig{}, []lesson{
			first(20),
			{10, 9, ok, 20, limit.Kept}, {99, 9, ok, 20, limit.Kept},
			{10, 10, ok, 26, limit.Grown},
		}},
		{"a drop is a drop, in use or not", limit.VegasConfig{}, []lesson{
			first(20), {10, 20, dropped, 19, limit.Dropped}, {10, 1, timedOut, 18, limit.Dropped},
		}},
		{"work faster than all before is the new measure", limit.VegasConfig{}, []lesson{
			first(20), {5, 20, ok, 20, limit.Kept}, {10, 20, ok, 19, limit.Queue}, // 20 (1 − 5/10) = 10
		}},
		{"even if it failed: it is no drop then", limit.VegasConfig{}, []lesson{
			first(20), {1, 20, dropped, 20, limit.Kept}, {10, 20, ok, 19, limit.Queue},
		}},
		{"what says nothing about load is no measure", limit.VegasConfig{}, []lesson{
			first(20), {1, 20, ignored, 20, limit.Kept}, {1, 20, left, 20, limit.Kept}, {10, 20, ok, 26, limit.Grown},
		}},
		{"nor is what took no time, or less", limit.VegasConfig{}, []lesson{
			{0, 20, ok, 20, limit.Kept}, {-5, 20, dropped, 20, limit.Kept},
			first(20), {0, 20, dropped, 20, limit.Kept}, {10, 20, ok, 26, limit.Grown},
		}},
		{"it stays below Max", limit.VegasConfig{Config: limit.Config{Max: 24}}, []lesson{
			first(20), {10, 20, ok, 24, limit.Grown}, {10, 24, ok, 24, limit.Kept},
		}},
		{"and above Min", limit.VegasConfig{Config: limit.Config{Initial: 3, Min: 2}}, []lesson{
			first(3), {10, 3, dropped, 2, limit.Dropped}, {10, 2, dropped, 2, limit.Kept},
		}},
		{"it moves by half of that with a Smoothing of half", limit.VegasConfig{Smoothing: 0.5}, []lesson{
			first(20),
			{10, 20, ok, 23, limit.Grown},
			{10, 23, dropped, 22, limit.Dropped}, // 22.5
			{10, 22, dropped, 22, limit.Kept},    // 22.0: it did not move
			{10, 22, dropped, 21, limit.Dropped}, // 21.5
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) { teach(t, newVegas(t, tt.cfg), tt.lessons) })
	}
}

// probes returns after how many samples each Vegas noticed that work had
// become twice as slow for good.
func probes(t *testing.T, seed uint64) (after []int) {
	v := newVegas(t, limit.VegasConfig{Config: limit.Config{Min: 20, Max: 30}, Seed: seed})
	rtt, samples := 10.0, 0
	v.Observe(lesson{rtt: rtt, inflight: 20, outcome: ok}.sample())
	rtt *= 2
	for samples = 1; len(after) < 5; samples++ {
		if v.Observe(lesson{rtt: rtt, inflight: 20, outcome: ok}.sample()) == limit.Grown {
			after = append(after, samples) // the sample before this one was the probe
			samples = 1
			rtt *= 2
			v.Observe(lesson{rtt: rtt, inflight: 20, outcome: dropped}.sample())
		}
	}
	return after
}

// Probe · L = 600: a probe is due after 300 to 600 samples, and there is no
// telling when.
func TestVegasProbes(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(20) {
		after := probes(t, seed)
		for _, n := range after {
			if seen[n] = true; n < 300 || n > 600 {
				t.Errorf("seed %d: a probe after %d samples", seed, n)
			}
		}
		if again := probes(t, seed); !slices.Equal(after, again) {
			t.Errorf("seed %d: probes after %v samples, and then after %v", seed, after, again)
		}
	}
	if len(seen) < 50 {
		t.Errorf("of 100 probes, only %d after different numbers of samples", len(seen))
	}
}

// overload runs an algorithm on a service of ten slots and 10 ms, asked for as
// much as the limit lets in, and returns its limit at the end. Ten is right.
func overload(a limit.Algorithm, samples int) int {
	for range samples {
		n := a.Limit()
		a.Observe(lesson{rtt: 10 * max(1, float64(n)/10), inflight: n, outcome: ok}.sample())
	}
	return a.Limit()
}

// The weakness that the documentation tells of.
func TestVegasDrifts(t *testing.T) {
	v := newVegas(t, limit.VegasConfig{Config: limit.Config{Initial: 10, Max: 100}})
	if n := overload(v, 100); n < 13 || n > 16 {
		t.Errorf("limit %d at first: ten, and a queue of 3 to 6", n)
	}
	if n := overload(v, 100_000); n != 100 {
		t.Errorf("limit %d in the end", n)
	}
}

func TestVegasDefaults(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.VegasConfig
		want int
	}{
		{limit.VegasConfig{}, 20},
		{limit.VegasConfig{Config: limit.Config{Max: 5}}, 5},
		{limit.VegasConfig{Config: limit.Config{Min: 30}}, 30},
		{limit.VegasConfig{Config: limit.Config{Min: 3000}}, 3000},
	} {
		if v := newVegas(t, tt.cfg); v.Limit() != tt.want {
			t.Errorf("%+v: starts at %d: want %d", tt.cfg, v.Limit(), tt.want)
		}
	}
}

func TestVegasValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.VegasConfig
		want string
	}{
		{limit.VegasConfig{Config: limit.Config{Min: -1}}, "Min = -1: must be >= 1"},
		{limit.VegasConfig{Config: limit.Config{Min: 5, Max: 4}}, "Max = 4: must be >= Min (5)"},
		{limit.VegasConfig{Config: limit.Config{Initial: 2000}}, "Initial = 2000: must be in [1, 1000]"},
		{limit.VegasConfig{Config: limit.Config{Initial: -2}}, "Initial = -2"},
		{limit.VegasConfig{Smoothing: 1.1}, "Smoothing = 1.1: must be in (0, 1]"},
		{limit.VegasConfig{Smoothing: -1}, "Smoothing = -1"},
		{limit.VegasConfig{Smoothing: math.NaN()}, "Smoothing = NaN"},
		{limit.VegasConfig{Probe: -1}, "Probe = -1: must be >= 1"},
	} {
		if _, err := limit.NewVegas(tt.cfg); err == nil || !strings.HasPrefix(err.Error(), "limit: "+tt.want) {
			t.Errorf("%+v: %v: want %q", tt.cfg, err, tt.want)
		}
	}
}
