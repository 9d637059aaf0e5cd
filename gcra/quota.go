// Package gcra implements token buckets as pure functions, without a clock and without
// a lock.
//
// Tests, simulators and databases need the same decisions as a limiter, and state that
// fits into a field, a map entry or a message. The generic cell rate algorithm (ITU-T
// I.371) is a token bucket with a state of one word. A bucket holds burst tokens and is
// refilled at a steady rate; an event that costs n tokens may happen once the bucket
// holds n.
//
// The package is pure: it takes the instant as an argument and returns the new state.
// The caller stores the state: by compare-and-swap, under a lock, or in another
// process.
//
//	quota := gcra.Per(100, time.Minute, 20)
//	var b gcra.Bucket // full
//	b, d := quota.Take(b, now, 1)
//
// # Exactness
//
// A Bucket counts in units. A token is a whole number of units, so tokens are never
// rounded, however many are taken. The time since the epoch is converted to units by
// one product of 128 bits, so errors do not add up. If the time for one token is a
// whole number of nanoseconds, or of halves or thirds of one, all decisions are exact.
// Otherwise they are exact to a nanosecond, or less precise if the burst takes decades
// to refill.
package gcra

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A Quota is a rate and a burst. Any number of Buckets share one. The zero Quota
// allows nothing.
type Quota struct {
	// A unit is the resolution of a Bucket. In exact Quotas there are 1, 2 or
	// 3 to the nanosecond; in others between 2 and 4, or fewer if the burst
	// would not fit otherwise.
	mul   uint64 // units a nanosecond, as mul·2^-(62+shift); mul is 0, or 2^63 and more
	shift uint8
	pack  uint8  // at rates above 2 tokens a unit, 2^pack tokens make one unit
	slack uint8  // units by which the clock may lag behind the true rate
	inf   bool   // no limit at all
	one   uint64 // units a token; 1 if pack > 0; 0 in the zero Quota only
	burst uint64 // units
	size  int    // the burst in tokens

	count, period uint64 // the rate: count·2^exp tokens every period nanoseconds
	exp           int16
}

// maxBurst bounds the burst in units, so that sums do not overflow.
const maxBurst = 1 << 62

// Per returns the Quota of count tokens a period, and a burst. If count is zero or
// less, the bucket is never refilled. If period is zero or less, there is no limit. If
// burst is zero or less, everything is denied.
//
// At rates above 4·10⁹ a second, a cost is rounded up to the tokens that are refilled
// in a quarter to half a nanosecond.
func Per(count int, period time.Duration, burst int) Quota {
	switch {
	case count <= 0:
		return depleting(burst)
	case period <= 0:
		return Unlimited()
	}
	return quota(uint64(count), uint64(period), 0, burst)
}

// PerSecond returns the Quota of rate tokens a second, and a burst. If rate is zero or
// less, or not a number, the bucket is never refilled. If rate is math.MaxFloat64 or
// more, there is no limit. Any other rate above 10¹⁸ counts as 10¹⁸. The time for one
// token is rounded to whole nanoseconds if the difference is within the precision of a
// float64.
func PerSecond(rate float64, burst int) Quota {
	switch interval := 1e9 / rate; {
	case !(rate > 0), interval >= math.MaxInt64:
		return depleting(burst)
	case rate >= math.MaxFloat64:
		return Unlimited()
	case rate >= 1e18:
		return quota(1e9, 1, 0, burst)
	case interval >= 1 && math.Abs(interval-math.Round(interval)) <= interval*0x1p-51:
		return quota(1, uint64(math.Round(interval)), 0, burst)
	case rate >= 1 && rate == math.Floor(rate):
		return quota(uint64(rate), 1e9, 0, burst)
	default:
		mantissa, exp := math.Frexp(rate)
		return quota(uint64(mantissa*(1<<53)), 1e9, exp-53, burst)
	}
}

// Unlimited returns the Quota that allows everything, whatever its cost. All Quotas
// without a limit are equal.
func Unlimited() Quota {
	return Quota{inf: true, size: math.MaxInt}
}

// depleting returns a Quota that is never refilled. Its units are fine all the
// same, for the tokens that Move brings.
func depleting(burst int) Quota {
	q := Quota{size: max(burst, 0), one: 1 << 32}
	for q.one > 1 && !q.fits(q.one) {
		q.one >>= 1
	}
	q.burst = q.cost(q.size)
	return q
}

// quota returns the Quota of count·2^exp tokens every period nanoseconds;
// neither is zero.
func quota(count, period uint64, exp int, burst int) Quota {
	g := gcd(count, period)
	count, period = count/g, period/g
	q := Quota{size: max(burst, 0), one: 1, count: count, period: period, exp: int16(exp)}

	// Exact: units that divide both the nanosecond and the token.
	if exp == 0 && count <= 3 {
		scale := uint64(1)
		if count == 1 && q.fits(2*period) {
			scale = 2
		}
		if q.fits(scale * period) {
			q.one = scale * period
			mul, e := divide(scale*count, 1)
			q.mul, q.shift = mul, uint8(1-e)
			q.burst = q.cost(q.size)
			return q
		}
	}

	// Else 2^k units to the token, such that 2^k·count/period is from 2 to 4
	// units to the nanosecond.
	mul, e := divide(count, period) // count/period = mul·2^(e-63), 2^63 <= mul
	k := 1 - (e + exp)
	for k > 0 && (k > 62 || !q.fits(1<<k)) {
		k--
	}
	if k >= 0 {
		q.one = 1 << k
	}
	q.pack = uint8(max(-k, 0))
	s := 1 - (e + exp + k)
	if s < 63 { // else not one unit in a hundred years
		q.mul, q.shift = mul, uint8(s)
	}
	if s == 0 && k > 0 { // a unit is little, of time and of tokens
		q.slack = 1
	}
	q.burst = q.cost(q.size)
	return q
}

// fits reports whether the burst can be counted with that many units a token.
func (q *Quota) fits(one uint64) bool {
	hi, lo := bits.Mul64(one, uint64(q.size))
	return hi == 0 && lo <= maxBurst && one <= maxBurst
}

// divide returns a/b as mul·2^(e-63), rounded down, with 2^63 <= mul.
func divide(a, b uint64) (mul uint64, e int) {
	na, nb := bits.LeadingZeros64(a), bits.LeadingZeros64(b)
	a, b = a<<na, b<<nb
	e = nb - na
	if a >= b {
		mul, _ = bits.Div64(a>>1, a<<63, b)
	} else {
		mul, _ = bits.Div64(a, 0, b)
		e--
	}
	return mul, e
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Burst returns the most that can be taken at once; math.MaxInt if there is no
// limit.
func (q *Quota) Burst() int { return q.size }

// Rate returns the tokens a second; infinity if there is no limit.
func (q *Quota) Rate() float64 {
	switch {
	case q.inf:
		return math.Inf(1)
	case q.count == 0:
		return 0
	}
	return math.Ldexp(float64(q.count)/float64(q.period)*1e9, int(q.exp))
}

// String describes the Quota, as in "10/s, burst 5".
func (q Quota) String() string {
	if q.inf {
		return "unlimited"
	}
	return fmt.Sprintf("%.6g/s, burst %d", q.Rate(), q.size)
}
