package limit_test

import (
	"slices"
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

func newVegas(t *testing.T, cfg limit.Config) limit.Algorithm {
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
		cfg     limit.Config
		lessons []lesson
	}{
		{"no queue, ⌈20 (1 − 10/10)⌉ = 0: +6", limit.Config{}, []lesson{
			first(20), {10, 20, ok, 26, limit.Grown}, {10, 26, ok, 32, limit.Grown},
		}},
		{"a queue of ⌈20 (1 − 10/10.5)⌉ = 1 is none: +6", limit.Config{}, []lesson{
			first(20), {10.5, 20, ok, 26, limit.Grown},
		}},
		{"a queue of ⌈20 (1 − 10/11)⌉ = 2: +1", limit.Config{}, []lesson{
			first(20), {11, 20, ok, 21, limit.Grown},
		}},
		{"a queue of 3 to 6 is what it wants", limit.Config{}, []lesson{
			first(20),
			{11.5, 20, ok, 20, limit.Kept}, // 2.6
			{12, 20, ok, 20, limit.Kept},   // 3.3
			{14, 20, ok, 20, limit.Kept},   // 5.7
		}},
		{"work slower than MaxHealthyLatency counts as dropped: −1", limit.Config{MaxHealthyLatency: 12 * time.Millisecond}, []lesson{
			first(20), {12, 20, ok, 20, limit.Kept}, {12.5, 20, ok, 19, limit.Dropped},
		}},
		{"a queue of ⌈20 (1 − 10/15)⌉ = 7: −1", limit.Config{}, []lesson{
			first(20), {15, 20, ok, 19, limit.Queue}, {15, 19, ok, 18, limit.Queue}, // 19/3 = 6.3
		}},
		{"from 100 on, steps are twice as large", limit.Config{Initial: 100}, []lesson{
			first(100), {10.2, 100, ok, 112, limit.Grown}, // 1.96
		}},
		{"and so are the thresholds: growth", limit.Config{Initial: 100}, []lesson{
			first(100), {10.3, 100, ok, 102, limit.Grown}, // 2.9
		}},
		{"rest", limit.Config{Initial: 100}, []lesson{
			first(100), {10.6, 100, ok, 100, limit.Kept}, {11.3, 100, ok, 100, limit.Kept}, // 5.7, 11.5
		}},
		{"and decrease", limit.Config{Initial: 100}, []lesson{
			first(100), {11.4, 100, ok, 98, limit.Queue}, // 12.3
		}},
		{"up to 99 they are not", limit.Config{Initial: 99}, []lesson{
			first(99), {10, 99, ok, 105, limit.Grown}, {10, 105, ok, 117, limit.Grown},
		}},
		{"from 1000 on they are three times as large", limit.Config{Initial: 999, Max: 9999}, []lesson{
			first(999), {10, 999, ok, 1011, limit.Grown}, {10, 1011, ok, 1029, limit.Grown}, {10, 999, dropped, 1026, limit.Dropped},
		}},
		{"at 1000 itself, too", limit.Config{Initial: 1000, Max: 9999}, []lesson{
			first(1000), {10, 1000, ok, 1018, limit.Grown},
		}},
		{"a limit less than half in use stays", limit.Config{}, []lesson{
			first(20),
			{10, 9, ok, 20, limit.Kept}, {99, 9, ok, 20, limit.Kept},
			{10, 10, ok, 26, limit.Grown},
		}},
		{"a drop is a drop, in use or not", limit.Config{}, []lesson{
			first(20), {10, 20, dropped, 19, limit.Dropped}, {10, 1, timedOut, 18, limit.Dropped},
		}},
		{"work faster than all before is the new measure", limit.Config{}, []lesson{
			first(20), {5, 20, ok, 20, limit.Kept}, {10, 20, ok, 19, limit.Queue}, // 20 (1 − 5/10) = 10
		}},
		{"even if it failed: it is no drop then", limit.Config{}, []lesson{
			first(20), {1, 20, dropped, 20, limit.Kept}, {10, 20, ok, 19, limit.Queue},
		}},
		{"what says nothing about load is no measure", limit.Config{}, []lesson{
			first(20), {1, 20, ignored, 20, limit.Kept}, {1, 20, left, 20, limit.Kept}, {10, 20, ok, 26, limit.Grown},
		}},
		{"nor is what took no time, or less", limit.Config{}, []lesson{
			{0, 20, ok, 20, limit.Kept}, {-5, 20, dropped, 20, limit.Kept},
			first(20), {0, 20, dropped, 20, limit.Kept}, {10, 20, ok, 26, limit.Grown},
		}},
		{"it stays below Max", limit.Config{Max: 24}, []lesson{
			first(20), {10, 20, ok, 24, limit.Grown}, {10, 24, ok, 24, limit.Kept},
		}},
		{"and above Min", limit.Config{Initial: 3, Min: 2}, []lesson{
			first(3), {10, 3, dropped, 2, limit.Dropped}, {10, 2, dropped, 2, limit.Kept},
		}},
	} {
		t.Run(tt.rule, func(t *testing.T) { teach(t, newVegas(t, tt.cfg), tt.lessons) })
	}
}

// probes returns after how many samples each, of 100 times, Vegas noticed that work had
// become twice as slow for good.
func probes(t *testing.T) (after []int) {
	v := newVegas(t, limit.Config{Min: 20, Max: 30})
	observe := func(rtt float64) limit.Cause {
		return v.Observe(lesson{rtt: rtt, inflight: 20, outcome: ok}.sample())
	}
	n := 0 // samples since the last probe
	for range 100 {
		observe(10)
		for n += 2; observe(20) != limit.Grown; n++ {
		}
		after = append(after, n-1) // the sample before this one was the probe
		n = 1
	}
	return after
}

// With a limit of 20 a probe is due after 300 to 600 samples, and each time after
// another number.
func TestVegasProbes(t *testing.T) {
	seen := map[int]bool{}
	after := probes(t)
	for _, n := range after {
		if seen[n] = true; n < 300 || n > 600 {
			t.Errorf("a probe after %d samples", n)
		}
	}
	if len(seen) < 50 {
		t.Errorf("of 100 probes, only %d after different numbers of samples", len(seen))
	}
	if again := probes(t); !slices.Equal(after, again) {
		t.Errorf("probes after %v samples, and then after %v", after, again)
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
	v := newVegas(t, limit.Config{Initial: 10, Max: 100})
	if n := overload(v, 100); n < 13 || n > 16 {
		t.Errorf("limit %d at first: ten, and a queue of 3 to 6", n)
	}
	if n := overload(v, 100_000); n != 100 {
		t.Errorf("limit %d in the end", n)
	}
}
