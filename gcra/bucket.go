package gcra

import (
	"math"
	"math/bits"
	"time"

	"github.com/weir-go/weir"
)

// A Bucket is the state of one token bucket under a Quota: its theoretical arrival
// time, which is the instant, in the Quota's units, at which it is full again. The zero
// Bucket is full, and so is every Bucket with an instant that has passed. A full Bucket need
// not be stored.
//
// A Bucket is valid only under the Quota that returned it. Move converts it to another
// Quota.
type Bucket uint64

// MaxNow is the latest instant that a Quota supports, 146 years after the epoch. Later
// instants count as MaxNow.
const MaxNow = time.Duration(1<<62 - 1)

// line returns how many units have come in from the epoch until now.
func (q *Quota) line(now time.Duration) uint64 {
	hi, _ := bits.Mul64(uint64(min(max(now, 0), MaxNow))<<2, q.mul)
	return hi >> q.shift
}

// at returns the first instant when line is x, to within the slack.
func (q *Quota) at(x uint64) time.Duration {
	if x <= uint64(q.slack) {
		return 0
	}
	x -= uint64(q.slack)
	if q.mul == 0 || x>>(64-q.shift) != 0 {
		return weir.Never
	}
	// line = now·mul·2^-(62+shift) >= x  <=>  now >= x·2^(62+shift)/mul
	x <<= q.shift
	t, rest := bits.Div64(x>>2, x<<62, q.mul)
	if rest != 0 {
		t++
	}
	return time.Duration(min(t, uint64(weir.Never)))
}

// unit returns the units a token; in the zero Quota, too.
func (q *Quota) unit() uint64 { return max(q.one, 1) }

// cost returns the units that n tokens are; n must not exceed the burst.
func (q *Quota) cost(n int) uint64 {
	if q.pack == 0 {
		return uint64(n) * q.one
	}
	return (uint64(n) + 1<<q.pack - 1) >> q.pack
}

// whole returns how many whole tokens x units are.
func (q *Quota) whole(x uint64) uint64 {
	if q.pack == 0 {
		return x / q.unit()
	}
	return min(x, math.MaxUint64>>q.pack) << q.pack
}

// Allow takes n tokens if the bucket holds them at the instant now, and
// reports whether it did; if not, the Bucket is returned unchanged. It is faster
// than Take. It panics if n < 0.
func (q *Quota) Allow(b Bucket, now time.Duration, n int) (Bucket, bool) {
	if uint(n) > uint(q.size) {
		check(n)
		return b, false
	}
	if q.inf {
		return b, true
	}
	line := q.line(now)
	next, over := bits.Add64(max(uint64(b), line), q.cost(n), 0)
	if over != 0 || next > q.burst && next-q.burst > line+uint64(q.slack) {
		return b, false
	}
	return Bucket(next), true
}

func check(n int) {
	if n < 0 {
		panic("gcra: negative cost")
	}
}

// Take takes n tokens if the bucket holds them at the instant now. The Decision tells
// what is left, and when to come back; RetryAfter is weir.Never if no wait will help,
// because n exceeds the burst or nothing is refilled. If it denies, the Bucket is
// returned as it was. With n = 0, Take changes nothing, and denies only if the bucket
// is in debt. It panics if n < 0.
//
// If now is before the instant of an earlier call, Take finds fewer tokens, never more:
// no span of time is refilled twice.
func (q *Quota) Take(b Bucket, now time.Duration, n int) (Bucket, weir.Decision) {
	check(n)
	if q.inf {
		return b, weir.Decision{OK: true, Remaining: math.MaxInt}
	}
	line := q.line(now)
	full := max(uint64(b), line)
	d := weir.Decision{RetryAfter: weir.Never}
	if n <= q.size {
		next, over := bits.Add64(full, q.cost(n), 0)
		switch {
		case over != 0:
		case next <= q.burst || next-q.burst <= line+uint64(q.slack):
			d.OK, d.RetryAfter = true, 0
			full, b = next, Bucket(next)
		default:
			d.RetryAfter = until(q.at(next-q.burst), now)
		}
	}
	if owed := full - line; owed < q.burst+uint64(q.slack) {
		d.Remaining = int(min(q.whole(q.burst+uint64(q.slack)-owed), uint64(q.size)))
	}
	if full > line {
		d.ResetAfter = until(q.at(full), now)
	}
	return b, d
}

// until returns the time from now until at.
func until(at, now time.Duration) time.Duration {
	if at == weir.Never {
		return weir.Never
	}
	return max(at-max(now, 0), 0)
}

// TakeAtMost takes as many of n tokens as the bucket holds, and returns how many. Its Decision is
// that of a Take of them or, if there are none, the denial of n. It panics if n < 0.
func (q *Quota) TakeAtMost(b Bucket, now time.Duration, n int) (Bucket, int, weir.Decision) {
	next, d := q.Take(b, now, n)
	if d.OK {
		return next, n, d
	}
	part := min(d.Remaining, n)
	if part <= 0 {
		return b, 0, d
	}
	next, d = q.Take(b, now, part)
	if !d.OK { // only if the Quota rounds costs
		return b, 0, d
	}
	return next, part, d
}

// Reserve takes n tokens, including future ones, if the bucket will hold them within
// maxWait. It returns how long the caller must wait before it acts. Otherwise, or if n
// exceeds the burst, it reports false and returns the Bucket unchanged. A wait of
// weir.Never means that the bucket is not refilled. With n = 0 and a maxWait of
// weir.Never, the wait lasts until the bucket is out of debt. It panics if n < 0.
func (q *Quota) Reserve(b Bucket, now time.Duration, n int, maxWait time.Duration) (Bucket, time.Duration, bool) {
	check(n)
	if q.inf {
		return b, 0, true
	}
	if n > q.size {
		return b, weir.Never, false
	}
	next, over := bits.Add64(max(uint64(b), q.line(now)), q.cost(n), 0)
	if over != 0 {
		return b, weir.Never, false
	}
	wait := q.ready(Bucket(next), now)
	if wait > max(maxWait, 0) {
		return b, wait, false
	}
	return Bucket(next), wait, true
}

// ready returns how long it takes until a Bucket is out of debt; 0 if it is not in
// debt.
func (q *Quota) ready(b Bucket, now time.Duration) time.Duration {
	if q.inf || uint64(b) <= q.burst {
		return 0
	}
	return until(q.at(uint64(b)-q.burst), now)
}

// Refund gives back n tokens that were taken or reserved under this Quota. It panics if
// n < 0.
func (q *Quota) Refund(b Bucket, n int) Bucket {
	check(n)
	return b - min(Bucket(q.units(n)), b)
}

// Return is Refund for a number of tokens that need not be whole. It panics if tokens < 0.
func (q *Quota) Return(b Bucket, tokens float64) Bucket {
	if !(tokens >= 0) {
		panic("gcra: negative cost")
	}
	units := math.Ldexp(tokens*float64(q.unit()), -int(q.pack))
	if units >= float64(b) {
		return 0
	}
	return b - Bucket(units)
}

// Charge takes n tokens even if the bucket does not hold them, for work that cost more
// than its estimate. It returns the number of tokens taken: it takes no tokens that
// would bring the debt above maxDebt. Without a limit, it takes nothing. It panics if n
// < 0.
func (q *Quota) Charge(b Bucket, now time.Duration, n, maxDebt int) (Bucket, int) {
	check(n)
	if q.inf {
		return b, 0
	}
	line := q.line(now)
	from := max(uint64(b), line)
	most := add(line, add(q.burst, q.units(maxDebt)))
	if room := q.whole(most - min(from, most)); room < uint64(n) {
		n = int(room)
	}
	if n == 0 {
		return b, 0
	}
	return Bucket(from + q.units(n)), n
}

// units is cost for numbers of tokens that may exceed the burst.
func (q *Quota) units(n int) uint64 {
	hi, lo := bits.Mul64(uint64(max(n, 0)), q.unit())
	switch {
	case q.pack > 0:
		return q.cost(max(n, 0))
	case hi != 0:
		return math.MaxUint64
	}
	return lo
}

// Tokens returns how many tokens the bucket holds, fractions included. The result is
// negative if the bucket is in debt, and infinite if there is no limit.
func (q *Quota) Tokens(b Bucket, now time.Duration) float64 {
	if q.inf {
		return math.Inf(1)
	}
	line := q.line(now)
	owed := max(uint64(b), line) - line
	one := math.Ldexp(float64(q.unit()), -int(q.pack))
	if owed <= q.burst {
		return min(float64(q.burst-owed)/one, float64(q.size))
	}
	return -float64(owed-q.burst) / one
}

// Move returns the Bucket that holds as many tokens under the Quota to as b does under
// q, but no more than to's burst. If either Quota has no limit, the result is full.
func (q *Quota) Move(b Bucket, now time.Duration, to *Quota) Bucket {
	if q.inf || to.inf {
		return 0
	}
	line := q.line(now)
	owed := convert(max(uint64(b), line)-line, q, to)
	if grown := to.size - q.size; grown >= 0 {
		owed = add(owed, to.cost(grown))
	} else {
		owed -= min(owed, to.units(-grown))
	}
	return Bucket(add(to.line(now), owed))
}

// convert turns units of one Quota into those of another, rounding up.
func convert(x uint64, from, to *Quota) uint64 {
	// x / (from.one·2^-from.pack) · (to.one·2^-to.pack)
	hi, lo := bits.Mul64(x, to.unit())
	lo, carry := bits.Add64(lo, from.unit()-1, 0)
	hi += carry
	if hi >= from.unit() {
		return math.MaxUint64
	}
	x, _ = bits.Div64(hi, lo, from.unit())
	if from.pack >= to.pack {
		up := from.pack - to.pack
		return min(x, math.MaxUint64>>up) << up
	}
	down := to.pack - from.pack
	return add(x, 1<<down-1) >> down
}

// add returns the sum, or the greatest number if there is none.
func add(x, y uint64) uint64 {
	sum, over := bits.Add64(x, y, 0)
	if over != 0 {
		return math.MaxUint64
	}
	return sum
}

// Level returns the greatest Bucket that is full at the instant now. Every lower Bucket
// is full too, and equivalent to the zero Bucket.
func (q *Quota) Level(now time.Duration) Bucket {
	if q.inf {
		return math.MaxUint64
	}
	return Bucket(q.line(now) + uint64(q.slack))
}
