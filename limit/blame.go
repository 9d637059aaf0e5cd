package limit

import "math"

// A blame is a regression of failure on the logarithm of the units in flight.
// It tells failures that load causes from background failures.
type blame struct {
	n, bad    float64 // samples; failures
	x, xx, bx float64 // sums of the logarithm, of its square, and of that of failures
	weight    float64 // of the failures
	most      int     // units in flight
}

// add takes in a sample with the logarithm x of its units in flight.
func (b *blame) add(inflight int, x float64, bad bool, weight float64) {
	if b.n >= 2*maxSamples { // forget half
		b.n, b.bad, b.x, b.xx, b.bx, b.weight = b.n/2, b.bad/2, b.x/2, b.xx/2, b.bx/2, b.weight/2
	}
	b.n++
	b.most = max(b.most, inflight)
	b.x += x
	b.xx += x * x
	if bad {
		b.bad++
		b.weight += weight
		b.bx += x
	}
}

// elasticity returns by how much the log-odds of failure grow with the
// logarithm of the units in flight, and the standard error of that: the slope of
// a logistic regression, to first order. The error is infinite as long as too
// little is known.
func (b *blame) elasticity() (e, se float64) {
	if b.n < 10 || b.bad < 3 || b.bad > b.n-5 {
		return 0, math.Inf(1)
	}
	p := b.bad / b.n
	variance := b.xx/b.n - b.x/b.n*b.x/b.n
	if variance < 1e-6 {
		return 0, math.Inf(1)
	}
	spread := variance * p * (1 - p)
	return (b.bx/b.n - p*b.x/b.n) / spread, 1 / math.Sqrt(b.n*spread)
}

// share is the share of the work that failed, weighed.
func (b *blame) share() float64 { return b.weight / b.n }
