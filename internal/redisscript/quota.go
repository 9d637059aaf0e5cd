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

// A Quota is a gcra.Quota or a limit in windows of time, as the script Buckets counts it.
//
// A token bucket is counted in units of which both a token and the refill of a microsecond are
// whole numbers. The rate equals the rate of the gcra.Quota to within 2^-50, or less precisely
// if the burst would otherwise exceed 2^50 units.
type Quota struct {
	rate  int64 // units a microsecond
	token int64 // units
	full  int64 // tokens of a full bucket
	limit int64 // tokens that may be in use, at most full; or events in a window

	kind   WindowKind // 0 for a token bucket
	period int64      // microseconds
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
	return Quota{rate: units, token: token, full: burst, limit: burst}, nil
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

// Within returns the Quota for calls with a limit of their own, for the same state. The tokens
// in use of a bucket may then be at most limit, or the burst if that is less. In a window, the
// limit counts instead of the Quota's. A limit of zero or less changes nothing.
func (q Quota) Within(limit int) Quota {
	switch {
	case limit <= 0:
	case q.kind == 0:
		q.limit = min(q.full, int64(limit))
	default:
		q.limit = min(int64(limit), MaxEvents)
	}
	return q
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

// refill returns the time in which units are refilled, rounded up to a microsecond.
func (q *Quota) refill(units int64) time.Duration {
	micros := (max(units, 0) + q.rate - 1) / q.rate
	if micros > int64(weir.Never/time.Microsecond) {
		return weir.Never
	}
	return time.Duration(micros) * time.Microsecond
}
