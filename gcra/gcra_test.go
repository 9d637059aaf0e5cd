package gcra_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

const ms = time.Millisecond

// ago is an epoch: all instants of the tests are long after it.
const start = 56 * 365 * 24 * time.Hour

func TestTake(t *testing.T) {
	const never = weir.Never
	type step struct {
		now  time.Duration // after the start
		n    int
		want weir.Decision
	}
	yes := func(remaining int, reset time.Duration) weir.Decision {
		return weir.Decision{OK: true, Remaining: remaining, ResetAfter: reset}
	}
	no := func(remaining int, retry, reset time.Duration) weir.Decision {
		return weir.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset}
	}
	for name, tt := range map[string]struct {
		quota gcra.Quota
		steps []step
	}{
		"a new bucket is full": {gcra.Per(10, time.Second, 3), []step{
			{0, 3, yes(0, 300*ms)},
			{0, 1, no(0, 100*ms, 300*ms)},
		}},
		"a token comes back at its very nanosecond": {gcra.Per(10, time.Second, 1), []step{
			{0, 1, yes(0, 100*ms)},
			{100*ms - 1, 1, no(0, 1, 1)},
			{100 * ms, 1, yes(0, 100*ms)},
			{200*ms - 1, 1, no(0, 1, 1)},
			{200 * ms, 1, yes(0, 100*ms)},
		}},
		"never more than the burst": {gcra.Per(10, time.Second, 3), []step{
			{0, 3, yes(0, 300*ms)},
			{time.Hour, 4, no(3, never, 0)},
			{time.Hour, 3, yes(0, 300*ms)},
			{time.Hour, 1, no(0, 100*ms, 300*ms)},
		}},
		"a cost above the burst is never allowed, and costs nothing": {gcra.Per(10, time.Second, 3), []step{
			{0, 4, no(3, never, 0)},
			{0, math.MaxInt, no(3, never, 0)},
			{0, 2, yes(1, 200*ms)},
			{0, 4, no(1, never, 200*ms)},
			{0, 2, no(1, 100*ms, 200*ms)},
			{0, 1, yes(0, 300*ms)},
		}},
		"a cost of zero looks": {gcra.Per(10, time.Second, 3), []step{
			{0, 0, yes(3, 0)},
			{0, 3, yes(0, 300*ms)},
			{0, 0, yes(0, 300*ms)},
			{100 * ms, 0, yes(1, 200*ms)},
		}},
		"time backwards refills nothing": {gcra.Per(10, time.Second, 3), []step{
			{time.Second, 3, yes(0, 300*ms)},
			{0, 1, no(0, 1100*ms, 1300*ms)},
			{time.Second, 1, no(0, 100*ms, 300*ms)},
			{1100 * ms, 1, yes(0, 300*ms)},
			{0, 1, no(0, 1200*ms, 1400*ms)},
			{1100 * ms, 1, no(0, 100*ms, 300*ms)},
		}},
		"no burst, nothing": {gcra.Per(10, time.Second, 0), []step{
			{0, 1, no(0, never, 0)},
			{time.Hour, 1, no(0, never, 0)},
			{time.Hour, 0, yes(0, 0)},
		}},
		"a negative burst is none": {gcra.Per(10, time.Second, -5), []step{{0, 1, no(0, never, 0)}}},
		"the zero quota allows nothing": {gcra.Quota{}, []step{
			{0, 1, no(0, never, 0)},
			{0, 0, yes(0, 0)},
		}},
		"no refill: the burst is all there is": {gcra.Per(0, time.Second, 2), []step{
			{0, 1, yes(1, never)},
			{time.Hour, 2, no(1, never, never)},
			{time.Hour, 1, yes(0, never)},
			{1000000 * time.Hour, 1, no(0, never, never)},
		}},
		"a negative count refills nothing":  {gcra.Per(-3, time.Second, 1), []step{{0, 1, yes(0, never)}, {time.Hour, 1, no(0, never, never)}}},
		"no period, no limit":               {gcra.Per(1, 0, 0), []step{{0, math.MaxInt, yes(math.MaxInt, 0)}, {0, 1, yes(math.MaxInt, 0)}}},
		"no rate at all, not a number":      {gcra.PerSecond(math.NaN(), 1), []step{{0, 1, yes(0, never)}, {0, 1, no(0, never, never)}}},
		"no rate at all, less than nothing": {gcra.PerSecond(math.Inf(-1), 1), []step{{0, 1, yes(0, never)}, {0, 1, no(0, never, never)}}},
		"an infinite rate has no burst":     {gcra.PerSecond(math.Inf(1), 0), []step{{0, 5, yes(math.MaxInt, 0)}}},
		"the largest float is infinite":     {gcra.PerSecond(math.MaxFloat64, 0), []step{{0, 5, yes(math.MaxInt, 0)}}},
		"one a year": {gcra.Per(1, 365*24*time.Hour, 1), []step{
			{0, 1, yes(0, 365*24*time.Hour)},
			{365*24*time.Hour - 1, 1, no(0, 1, 1)},
			{365 * 24 * time.Hour, 1, yes(0, 365*24*time.Hour)},
		}},
		"a milliard a second": {gcra.Per(1e9, time.Second, 2), []step{
			{0, 2, yes(0, 2)},
			{0, 1, no(0, 1, 2)},
			{1, 1, yes(0, 2)},
			{2, 2, no(1, 1, 1)},
			{3, 2, yes(0, 2)},
		}},
		"three a second: a third of a nanosecond counts": {gcra.Per(3, time.Second, 1), []step{
			{0, 1, yes(0, 333333334)},
			{333333333, 1, no(0, 1, 1)},
			{333333334, 1, yes(0, 333333334)}, // two thirds late, and full since
			{666666667, 1, no(0, 1, 1)},
			{666666668, 1, yes(0, 333333334)},
		}},
		"three a second, never full: a second is three": {gcra.Per(3, time.Second, 4), []step{
			{0, 4, yes(0, 1333333334)},
			{333333333, 1, no(0, 1, 1000000001)},
			{333333334, 1, yes(0, 1333333333)},
			{666666666, 1, no(0, 1, 1000000001)},
			{666666667, 1, yes(0, 1333333333)},
			{999999999, 1, no(0, 1, 1000000001)},
			{1000000000, 1, yes(0, 1333333334)},
		}},
		"faster than the clock ticks": {gcra.Per(100, time.Nanosecond, 1<<20), []step{
			{0, 1 << 20, yes(0, 10486)},
			{0, 1, no(0, 1, 10486)},
			{10, 1000, no(992, 1, 10476)}, // a unit is 32 tokens, and 1000 are no whole number of them
			{11, 1000, yes(64, 10485)},
		}},
		"no more at once, not even where a unit is a token": {gcra.Per(37, 10, 5), []step{
			{0, 5, yes(0, 2)},
			{0, 1, no(0, 1, 2)},
		}},
		"the largest burst": {gcra.Per(1, time.Second, math.MaxInt), []step{
			{0, math.MaxInt, yes(0, never)},
			{time.Second, 1, yes(0, never)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var b gcra.Bucket
			for i, s := range tt.steps {
				next, d := tt.quota.Take(b, start+s.now, s.n)
				if d != s.want {
					t.Errorf("step %d, %d at %v: %+v: want %+v", i, s.n, s.now, d, s.want)
				}
				if !d.OK && next != b {
					t.Errorf("step %d: a denial changes the bucket", i)
				}
				if allowed, ok := tt.quota.Allow(b, start+s.now, s.n); ok != d.OK || allowed != next {
					t.Errorf("step %d: Allow says %v", i, ok)
				}
				b = next
			}
		})
	}
}

func TestNegativeCostPanics(t *testing.T) {
	q := gcra.Per(1, time.Second, 1)
	for name, f := range map[string]func(){
		"Allow":   func() { q.Allow(0, 0, -1) },
		"Take":    func() { q.Take(0, 0, -1) },
		"Reserve": func() { q.Reserve(0, 0, math.MinInt, 0) },
		"Refund":  func() { q.Refund(0, -1) },
		"Charge":  func() { q.Charge(0, 0, -1, 0) },
	} {
		func() {
			defer func() {
				if r := recover(); r != "gcra: negative cost" {
					t.Errorf("%s: %v", name, r)
				}
			}()
			f()
		}()
	}
}

func TestReserve(t *testing.T) {
	q := gcra.Per(10, time.Second, 2)
	var b gcra.Bucket
	for i, s := range []struct {
		now     time.Duration
		n       int
		maxWait time.Duration
		wait    time.Duration
		ok      bool
	}{
		{0, 2, 0, 0, true},
		{0, 2, 200*ms - 1, 200 * ms, false}, // a nanosecond too long
		{0, 2, 200 * ms, 200 * ms, true},
		{0, 3, weir.Never, weir.Never, false}, // more than the burst
		{0, 1, -1, 300 * ms, false},
		{100 * ms, 1, weir.Never, 200 * ms, true},
		{300 * ms, 0, 0, 0, true},
		{250 * ms, 0, 0, 50 * ms, false},
		{time.Hour, 1, -1, 0, true},
	} {
		next, wait, ok := q.Reserve(b, start+s.now, s.n, s.maxWait)
		if wait != s.wait || ok != s.ok {
			t.Errorf("step %d: %v, %v: want %v, %v", i, wait, ok, s.wait, s.ok)
		}
		if !ok && next != b {
			t.Errorf("step %d: a refusal changes the bucket", i)
		}
		if ok && ready(&q, next, start+s.now) != wait {
			t.Errorf("step %d: ready after %v: want %v", i, ready(&q, next, start+s.now), wait)
		}
		b = next
	}
	empty := gcra.Per(0, 0, 1)
	b, wait, ok := empty.Reserve(0, start, 1, 0)
	if wait != 0 || !ok {
		t.Errorf("%v, %v: want the burst at once", wait, ok)
	}
	if _, wait, ok = empty.Reserve(b, start, 1, weir.Never-1); wait != weir.Never || ok {
		t.Errorf("%v, %v: want nobody to wait for what does not come", wait, ok)
	}
	if _, wait, ok = empty.Reserve(b, start, 1, weir.Never); wait != weir.Never || !ok {
		t.Errorf("%v, %v: want it, for those who would wait for ever", wait, ok)
	}
	free := gcra.Unlimited()
	if _, wait, ok = free.Reserve(b, start, math.MaxInt, 0); wait != 0 || !ok {
		t.Errorf("%v, %v: want no limit", wait, ok)
	}
}

func TestRefund(t *testing.T) {
	for name, q := range quotas {
		var b gcra.Bucket
		var states []gcra.Bucket
		n := min(q.Burst(), 3)
		for range 5 {
			states = append(states, b)
			b, _, _ = q.Reserve(b, start, n, weir.Never)
		}
		for i := len(states) - 1; i > 0; i-- {
			if b = q.Refund(b, n); b != states[i] {
				t.Errorf("%s: refund %d: %d: want %d", name, i, b, states[i])
			}
		}
		if b = q.Refund(b, n); q.Tokens(b, start) != q.Tokens(0, start) {
			t.Errorf("%s: all is given back, but it holds %v", name, q.Tokens(b, start))
		}
		if b = q.Refund(b, math.MaxInt); b > q.Level(start) {
			t.Errorf("%s: more than full: %d", name, b)
		}
	}
}

func TestCharge(t *testing.T) {
	q := gcra.Per(10, time.Second, 4)
	for _, tt := range []struct {
		rule       string
		taken      int // before
		n, maxDebt int
		want       int // taken by the charge
	}{
		{"what is there is taken", 1, 2, 0, 2},
		{"to the last token", 1, 3, 0, 3},
		{"without debt, no deeper", 1, 7, 0, 3},
		{"into debt", 1, 7, 10, 7},
		{"but not beyond its bound", 1, 700, 10, 13},
		{"however large", 1, math.MaxInt, 10, 13},
		{"a negative bound is none", 1, 5, -1, 3},
		{"nothing costs nothing", 3, 0, 0, 0},
	} {
		b, _ := q.Charge(0, start, tt.taken, 0)
		after, took := q.Charge(b, start, tt.n, tt.maxDebt)
		if left := q.Tokens(after, start); took != tt.want || left != float64(4-tt.taken-tt.want) {
			t.Errorf("%s: took %d, %v tokens left: want %d taken", tt.rule, took, left, tt.want)
		}
		if q.Refund(after, took) != b {
			t.Errorf("%s: what was taken is not what can be given back", tt.rule)
		}
	}
	b, _, _ := q.Reserve(0, start, 4, weir.Never)
	b, _, _ = q.Reserve(b, start, 4, weir.Never)
	if got, took := q.Charge(b, start, 1, 0); got != b || took != 0 {
		t.Errorf("a bucket in deeper debt than the bound is changed: %v tokens", q.Tokens(got, start))
	}
	if got, _ := q.Charge(0, start, math.MaxInt, math.MaxInt); q.Tokens(got, start) > -1e9 {
		t.Errorf("unbounded debt: %v", q.Tokens(got, start))
	}
	free := gcra.Unlimited()
	if b, took := free.Charge(0, start, math.MaxInt, math.MaxInt); b != 0 || took != 0 {
		t.Error("no limit, but charged")
	}
}

func TestMove(t *testing.T) {
	per := gcra.Per
	for _, tt := range []struct {
		rule     string
		from, to gcra.Quota
		taken    int // of from
		want     float64
	}{
		{"a new rate leaves the tokens", per(10, time.Second, 5), per(1, time.Hour, 5), 2, 3},
		{"debts as well", per(10, time.Second, 5), per(7, time.Second, 5), 9, -4},
		{"a larger burst gives none", per(10, time.Second, 5), per(10, time.Second, 8), 2, 3},
		{"not even to a full bucket", per(10, time.Second, 5), per(10, time.Second, 8), 0, 5},
		{"a smaller burst takes what it cannot hold", per(10, time.Second, 5), per(10, time.Second, 2), 1, 2},
		{"and no more", per(10, time.Second, 5), per(10, time.Second, 2), 4, 1},
		{"a debt stays what it was", per(10, time.Second, 5), per(10, time.Second, 2), 8, -3},
		{"from nothing", gcra.Quota{}, per(10, time.Second, 2), 0, 0},
		{"to nothing", per(10, time.Second, 2), gcra.Quota{}, 1, 0},
		{"from no refill", per(0, 0, 4), per(10, time.Second, 4), 3, 1},
		{"to no refill", per(10, time.Second, 4), per(0, 0, 4), 3, 1},
		{"from no limit, full", gcra.Unlimited(), per(10, time.Second, 4), 3, 4},
		{"to no limit", per(10, time.Second, 4), gcra.Unlimited(), 3, math.Inf(1)},
		{"to very fast and back", per(1, time.Second, 1<<20), per(64, time.Nanosecond, 1<<20), 1 << 19, 1 << 19},
		{"from very fast", per(64, time.Nanosecond, 1<<20), per(1, time.Second, 1<<20), 1 << 19, 1 << 19},
	} {
		var b gcra.Bucket
		for left := tt.taken; left > 0; left -= min(left, tt.from.Burst()) {
			b, _, _ = tt.from.Reserve(b, start, min(left, tt.from.Burst()), weir.Never)
		}
		b = tt.from.Move(b, start, &tt.to)
		if got := tt.to.Tokens(b, start); math.Abs(got-tt.want) > 1e-7 {
			t.Errorf("%s: %v tokens: want %v", tt.rule, got, tt.want)
		}
	}
}

// At the edge of time nothing wraps around: what cannot be told is denied.
func TestEdgeOfTime(t *testing.T) {
	for name, q := range quotas {
		if q == gcra.Unlimited() {
			continue
		}
		for _, now := range []time.Duration{gcra.MaxNow - 1, gcra.MaxNow, gcra.MaxNow + 1, math.MaxInt64} {
			var b gcra.Bucket
			n := q.Burst()
			for range 10 {
				next, d := q.Take(b, now, n)
				if d.Remaining < 0 || d.RetryAfter < 0 || d.ResetAfter < 0 || next < b {
					t.Fatalf("%s at %v: %+v", name, now, d)
				}
				if d.OK && b != 0 {
					t.Errorf("%s at %v: two bursts at once", name, now)
				}
				b, _, _ = q.Reserve(next, now, n, weir.Never)
			}
		}
		b, d := q.Take(0, math.MinInt64, 1)
		if _, zero := q.Take(0, 0, 1); d != zero {
			t.Errorf("%s: before the epoch %+v: want it to be the epoch: %+v", name, d, zero)
		}
		if b <= q.Level(math.MinInt64) {
			t.Errorf("%s: full after a take", name)
		}
	}
}

func TestString(t *testing.T) {
	for want, q := range map[string]gcra.Quota{
		"10/s, burst 5":          gcra.Per(10, time.Second, 5),
		"0.0833333/s, burst 1":   gcra.Per(5, time.Minute, 1),
		"0/s, burst 3":           gcra.Per(0, time.Minute, 3),
		"1e+10/s, burst 1000000": gcra.PerSecond(1e10, 1e6),
		"unlimited":              gcra.Unlimited(),
	} {
		if got := q.String(); got != want {
			t.Errorf("%s: want %s", got, want)
		}
	}
}

// quotas are of all kinds.
var quotas = map[string]gcra.Quota{
	"10/s":            gcra.Per(10, time.Second, 5),
	"3/s":             gcra.Per(3, time.Second, 5),
	"7/s":             gcra.Per(7, time.Second, 5),
	"425/s":           gcra.Per(425, time.Second, 64),
	"1 a day":         gcra.Per(1, 24*time.Hour, 3),
	"1 a year":        gcra.Per(1, 365*24*time.Hour, 1),
	"1 a year, much":  gcra.Per(1, 365*24*time.Hour, 1<<40),
	"1e8/s":           gcra.Per(1e8, time.Second, 10),
	"1e9/s":           gcra.Per(1e9, time.Second, 1),
	"999999937/s":     gcra.Per(999999937, time.Second, 1000),
	"2^33/s":          gcra.PerSecond(1<<33, 1<<20),
	"1e18/s":          gcra.PerSecond(1e18, math.MaxInt),
	"0.1/s, in float": gcra.PerSecond(0.1, 5),
	"pi/s":            gcra.PerSecond(math.Pi, 5),
	"tiny":            gcra.PerSecond(1e-8, 1<<50),
	"none":            gcra.Per(0, time.Second, 5),
}

// ready returns how long it takes until a bucket is out of debt.
func ready(q *gcra.Quota, b gcra.Bucket, now time.Duration) time.Duration {
	_, wait, _ := q.Reserve(b, now, 0, weir.Never)
	return wait
}

// Return gives back what Refund does, and parts of tokens.
func TestReturn(t *testing.T) {
	for _, q := range []gcra.Quota{gcra.Per(10, time.Second, 5), gcra.Per(7, time.Minute, 300), gcra.Per(1e9, time.Second, 1e9), gcra.Per(0, 0, 4)} {
		b, _ := q.Take(0, start, 4)
		for n := range 6 {
			if got, want := q.Return(b, float64(n)), q.Refund(b, n); got != want {
				t.Errorf("%v: %d: %v: want %v", q, n, got, want)
			}
		}
		if got, want := q.Tokens(q.Return(b, 1.5), start), q.Tokens(b, start)+1.5; math.Abs(got-want) > 1e-6 {
			t.Errorf("%v: %v tokens: want %v", q, got, want)
		}
	}
	for _, n := range []float64{-1, math.NaN()} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Return of %v does not panic", n)
				}
			}()
			q := gcra.Per(1, time.Second, 1)
			q.Return(1, n)
		}()
	}
}
