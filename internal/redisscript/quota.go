package redisscript

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// maxUnits bounds each of what a bucket can owe: its burst, a debt and a wait. Their sum
// is below 2^53, so that scripts count exactly.
const maxUnits = 1 << 50

// A Quota is a gcra.Quota as the script Buckets counts it: in units of which both a token
// and the refill of a microsecond are whole numbers. The rate equals the rate of the
// gcra.Quota to within 2^-50, or less precisely if the burst would otherwise exceed 2^50 units.
type Quota struct {
	rate  int64 // units a microsecond
	token int64 // units
	burst int64 // tokens
}

// NewQuota returns the Quota for q. It is an error if q has no limit, is never refilled, or
// takes more than 35 years to refill the burst or a token, because no state of it can be kept.
func NewQuota(q gcra.Quota) (Quota, error) {
	rate, burst := q.Rate()/1e6, int64(q.Burst()) // tokens a microsecond
	switch {
	case math.IsInf(rate, 1):
		return Quota{}, errors.New("no limit: there is nothing to share")
	case rate == 0:
		return Quota{}, fmt.Errorf("%v: never refilled: Redis would keep its state for ever", q)
	case max(float64(burst), 1)/rate > maxUnits || burst > maxUnits || rate > maxUnits:
		return Quota{}, fmt.Errorf("%v: the burst and the tokens of a microsecond must be at most 2^50, and the burst be refilled in 35 years", q)
	}
	units, token := ratio(rate, float64(maxUnits/max(burst, 1)))
	return Quota{rate: units, token: token, burst: burst}, nil
}

// ratio returns the simplest fraction num/den within 2^-50 of x > 0. If its denominator would
// exceed maxDen or its numerator maxUnits, it returns the best fraction before that.
func ratio(x, maxDen float64) (num, den int64) {
	// The convergents of the continued fraction of x. The first that is not 0 is the
	// integer part of x or, of x < 1, 1/⌊1/x⌋.
	n0, d0, n1, d1 := 0.0, 1.0, 1.0, 0.0
	for rest := x; ; {
		a := math.Floor(rest)
		n2, d2 := a*n1+n0, a*d1+d0
		if d2 > maxDen || n2 > maxUnits {
			break
		}
		n0, d0, n1, d1 = n1, d1, n2, d2
		if math.Abs(n1/d1-x) <= x*0x1p-50 || rest == a {
			break
		}
		rest = 1 / (rest - a)
	}
	return int64(n1), int64(d1)
}

// A Take asks for tokens of one bucket. The zero Take looks.
type Take struct {
	// N is how many tokens to take. If zero, the bucket is only looked at, and denies if it
	// is in debt. If less than zero, tokens are given back, which is always granted.
	N int
	// Least is how many tokens to take at least, if there are fewer than N: N for all or
	// nothing.
	Least int
	// Ahead is for how long before they are refilled tokens may be taken.
	Ahead time.Duration
	// Debt is how many tokens may be taken that the bucket does not hold.
	Debt int
	// Most is the greatest Ahead or Debt, as a time to refill, of any call for this bucket. A
	// state that owes more is of another quota, or comes from a clock that was ahead, and
	// counts as one that owes this. If less than zero, any state counts.
	Most time.Duration
}

// units returns how many units are refilled in a time, at most maxUnits.
func (q *Quota) units(d time.Duration) int64 {
	micros := uint64(max(d, 0) / time.Microsecond)
	if hi, lo := bits.Mul64(micros, uint64(q.rate)); hi == 0 && lo < maxUnits {
		return int64(lo)
	}
	return maxUnits
}

// cost returns the units of n >= 0 tokens, at most maxUnits.
func (q *Quota) cost(n int) int64 {
	if hi, lo := bits.Mul64(uint64(n), uint64(q.token)); hi == 0 && lo < maxUnits {
		return int64(lo)
	}
	return maxUnits
}

// limit returns how many units a bucket may owe after the Take.
func (q *Quota) limit(t *Take) int64 {
	return q.burst*q.token + q.units(t.Ahead) + q.cost(max(t.Debt, 0))
}

// Args appends the arguments of the script for one key.
func (q *Quota) Args(args []any, t *Take) []any {
	limit, most := q.limit(t), int64(1<<60)
	if t.Most >= 0 {
		most = q.burst*q.token + q.units(t.Most)
	}
	return append(args, q.rate, q.token, limit, max(limit, most), t.N, t.Least)
}

// A Reply is the answer of the script Buckets.
type Reply struct {
	Time    time.Duration // since 1970, by the server's clock
	Granted bool
	buckets []int64 // the units owed and the tokens taken of each
}

// ReadReply reads the answer of the script for a number of keys.
func ReadReply(reply []int64, keys int) (Reply, error) {
	if len(reply) != 2+2*keys {
		return Reply{}, fmt.Errorf("the script for %d keys has answered with %d numbers: want %d", keys, len(reply), 2+2*keys)
	}
	return Reply{Time: time.Duration(reply[0]) * time.Microsecond, Granted: reply[1] == 1, buckets: reply[2:]}, nil
}

// Taken returns how many tokens of the key with index i were taken.
func (r *Reply) Taken(i int) int {
	if !r.Granted {
		return 0
	}
	return int(r.buckets[2*i+1])
}

// Decision returns the decision about the key with index i. A denial of one key denies the
// call; RetryAfter of the other keys is then zero. RetryAfter is weir.Never if Least
// exceeds the burst.
func (r *Reply) Decision(i int, q *Quota, t *Take) weir.Decision {
	owed := r.buckets[2*i]
	d := weir.Decision{OK: r.Granted, Remaining: int(max(q.burst*q.token-owed, 0) / q.token), ResetAfter: q.refill(owed)}
	switch {
	case r.Granted:
	case int64(t.Least) > q.burst:
		d.RetryAfter = weir.Never
	default:
		d.RetryAfter = r.Until(i, q, t)
	}
	return d
}

// Until returns the time after which a Take that was denied would be granted, were its N
// within the burst.
func (r *Reply) Until(i int, q *Quota, t *Take) time.Duration {
	return q.refill(r.buckets[2*i] + q.cost(max(t.Least, 0)) - q.limit(t))
}

// Wait returns how long it takes until the key with index i is out of debt, which is the
// wait of a Take with Ahead.
func (r *Reply) Wait(i int, q *Quota) time.Duration {
	return q.refill(r.buckets[2*i] - q.burst*q.token)
}

// refill returns the time in which units are refilled, rounded up to a microsecond.
func (q *Quota) refill(units int64) time.Duration {
	micros := (max(units, 0) + q.rate - 1) / q.rate
	if micros > int64(weir.Never/time.Microsecond) {
		return weir.Never
	}
	return time.Duration(micros) * time.Microsecond
}
