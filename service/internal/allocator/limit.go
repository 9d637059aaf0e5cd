package allocator

import "math"

// A Limit is a rate with a burst, which leaves share.
type Limit struct {
	Rate  float64 // tokens a second, >= 0
	Burst float64 // tokens, >= 0
}

// SetLimit changes the limit. Leaves hear of it with their next assignments: until then, or
// until their assignments end, a smaller limit can be exceeded.
func (a *Allocator) SetLimit(l Limit) {
	if !valid(l.Rate) || !valid(l.Burst) {
		panic("allocator: rate and burst must be finite numbers and not negative")
	}
	a.limit = l
	// Sums of multiples of a power of two are exact, up to 2⁵³ times of it.
	_, exp := math.Frexp(l.Rate)
	a.quantum = math.Ldexp(1, exp-50)
}

func valid(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// Limit returns the limit.
func (a *Allocator) Limit() Limit { return a.limit }
