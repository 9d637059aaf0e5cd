package pagetable

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/window"
)

// Two words hold a count exactly, up to the largest.
func TestCountsAreKept(t *testing.T) {
	for _, number := range []uint64{0, 1, 1<<22 - 1, 1 << 22, 1<<44 - 1} {
		for _, last := range []uint64{0, 1, MaxLimit} {
			for _, this := range []uint64{0, 1, MaxLimit} {
				c := slidingCount(number, last, this)
				if c.number() != number || c.last() != last || c.this() != this {
					t.Errorf("%d, %d, %d became %d, %d, %d", number, last, this, c.number(), c.last(), c.this())
				}
			}
		}
	}
	r := NewRule(window.Quota{Period: 1, Sliding: true}, 0)
	if n := r.number(math.MaxInt64); n >= 1<<44 {
		t.Errorf("there are %d windows", n)
	}
	for _, tt := range []struct {
		q       window.Quota
		maxDebt int
		want    Rule
	}{
		{window.Quota{Limit: 5, Period: time.Hour, Sliding: true}, 0, Rule{Quota: window.Quota{Limit: 5, Period: time.Hour, Sliding: true}, maxDebt: 5}},
		{window.Quota{Limit: 5, Period: time.Hour, Sliding: true}, 2, Rule{Quota: window.Quota{Limit: 5, Period: time.Hour, Sliding: true}, maxDebt: 2}},
		{window.Quota{Limit: 5, Period: 0}, -1, Rule{Quota: window.Quota{Limit: 5, Period: math.MaxInt64, Sliding: false}, maxDebt: 0}},
		{window.Quota{Limit: -5, Period: 1}, 7, Rule{Quota: window.Quota{Limit: 0, Period: MinPeriod, Sliding: false}, maxDebt: 7}},
		{window.Quota{Limit: math.MaxInt, Period: time.Hour, Sliding: true}, math.MaxInt, Rule{Quota: window.Quota{Limit: MaxLimit, Period: time.Hour, Sliding: true}, maxDebt: 0}},
		{window.Quota{Limit: 1, Period: time.Hour, Sliding: true}, math.MaxInt, Rule{Quota: window.Quota{Limit: 1, Period: time.Hour, Sliding: true}, maxDebt: MaxLimit - 1}},
	} {
		if r := NewRule(tt.q, tt.maxDebt); *r != tt.want {
			t.Errorf("%+v, debt %d: %+v: want %+v", tt.q, tt.maxDebt, *r, tt.want)
		}
	}
}

// Of counts that are alike, what ends or fades first weighs less.
func TestWeight(t *testing.T) {
	const s = time.Second
	fixed, slides := NewRule(window.Quota{Limit: 10, Period: s}, 0), NewRule(window.Quota{Limit: 10, Period: s, Sliding: true}, 0)
	for _, tt := range []struct {
		r      *Rule
		now    time.Duration
		counts []Value // from the lightest on
	}{
		{fixed, 100 * s, []Value{{}, {uint64(100*s + 1), 1}, {uint64(100*s + 2), 1}, {uint64(101 * s), 1}, {uint64(100*s + 1), 2}}},
		{slides, 100*s + s/4, []Value{{}, slidingCount(99, 9, 1), slidingCount(100, 2, 0), slidingCount(100, 2, 1), slidingCount(101, 0, 4)}}, // of a clock that went back
	} {
		m := tt.r.At(tt.now)
		for i, c := range tt.counts[1:] {
			if m.Weight(tt.counts[i]) >= m.Weight(c) {
				t.Errorf("%+v does not weigh more than %+v", c, tt.counts[i])
			}
		}
	}
}

// What a snapshot says is taken for what it can be, whatever a clock did since.
func TestRestoredCounts(t *testing.T) {
	const s = time.Second
	fixed, slides := NewRule(window.Quota{Limit: 10, Period: s}, 0), NewRule(window.Quota{Limit: 10, Period: s, Sliding: true}, 0)
	for _, tt := range []struct {
		rule      string
		r         *Rule
		c         Value
		then, now time.Duration
		want      Value
	}{
		{"a window goes on", fixed, Value{uint64(105 * s), 4}, 104 * s, 104*s + 5, Value{uint64(105 * s), 4}},
		{"a clock that was set back does not make it longer", fixed, Value{uint64(105 * s), 4}, 104*s + 5, 50 * s, Value{uint64(51*s - 5), 4}},
		{"nor does anything else", fixed, Value{uint64(900 * s), 4}, 104 * s, 104 * s, Value{uint64(105 * s), 4}},
		{"not even an end that cannot be", fixed, Value{math.MaxUint64, 4}, 104 * s, 104 * s, Value{uint64(105 * s), 4}},
		{"and no more is used of it than can be", fixed, Value{uint64(105 * s), math.MaxUint64}, 104 * s, 104 * s, Value{uint64(105 * s), MaxLimit}},
		{"a clock set back to before all windows", fixed, Value{uint64(105 * s), 4}, 200 * s, 2 * s, Value{0, 4}},
		{"a snapshot of an instant that cannot be", fixed, Value{uint64(105 * s), 4}, -5, 104 * s, Value{uint64(105 * s), 4}},
		{"a sliding window goes on", slides, slidingCount(104, 3, 4), 104 * s, 105 * s, slidingCount(104, 3, 4)},
		{"and is not of the future", slides, slidingCount(104, 3, 4), 104 * s, 50 * s, slidingCount(50, 3, 4)},
	} {
		if got := tt.r.Restored(tt.c, tt.then, tt.now); got != tt.want {
			t.Errorf("%s: %+v: want %+v", tt.rule, got, tt.want)
		}
	}
}

// What joins two counts is at any later time as much as the larger of them; and
// no more than is needed, if one of them has ended. A count weighs nothing if
// and only if it counts nothing.
func FuzzJoin(f *testing.F) {
	for n := range uint64(200) {
		f.Add(n, n%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed uint64, sliding bool) {
		chance := rand.New(rand.NewPCG(seed, 5))
		r := NewRule(window.Quota{Limit: 100, Period: time.Second, Sliding: sliding}, 0)
		now := 1000*time.Hour + time.Duration(chance.IntN(int(time.Second)))
		made := func() (c Value) {
			for at := now - 2500*time.Millisecond; at <= now; at += time.Duration(chance.IntN(int(2 * time.Second))) {
				c, _ = r.Take(c, at, chance.IntN(60), r.Limit)
			}
			return c
		}
		a, b := made(), made()
		joined := r.Join(a, b, now)
		for at := now; at < now+3*time.Second; at += 100 * time.Millisecond {
			m := r.At(at)
			ua, _ := r.Used(a, at)
			ub, _ := r.Used(b, at)
			uj, _ := r.Used(joined, at)
			if uj < max(ua, ub) || (ua == 0 || ub == 0) && at == now && uj != max(ua, ub) {
				t.Fatalf("%d and %d are %d together, %v later", ua, ub, uj, at-now)
			}
			if w := m.events(a); (w > 0) != (ua > 0) || math.Abs(w-float64(ua)) > 1 {
				t.Fatalf("%d weigh %v", ua, w)
			}
		}
	})
}
