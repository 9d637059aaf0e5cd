// Package retrystep rounds waits up to few values, so that refusals that tell them are made
// in advance. A step is a float64 number of seconds with a mantissa of two bits: the upper
// 14 bits of the number determine it.
package retrystep

import (
	"math"
	"time"
)

const (
	lowBits = 50
	first   = (1023 - 12) << 2 // 1/4096 s
	never   = math.MaxInt64

	// Count is the number of steps, up to 2^30 s. The first is 0, the last is for ever.
	Count = 42*4 + 3
)

// At returns the i-th step, 0 <= i < Count.
func At(i int) time.Duration {
	switch i {
	case 0:
		return 0
	case Count - 1:
		return never
	}
	return time.Duration(1e9 * math.Float64frombits(uint64(first+i-1)<<lowBits))
}

// Index returns the index of the shortest step that is not below d.
func Index(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	up := math.Float64bits(d.Seconds()) + 1<<lowBits - 1
	i := min(max(int(up>>lowBits)-first+1, 1), Count-1)
	if At(i) < d { // the float was rounded down
		i++
	}
	return i
}

// Up rounds d up to a step: a shorter wait to 1/4096 s, a longer one by less than a quarter.
func Up(d time.Duration) time.Duration { return At(Index(d)) }
