package elasticity

import "math"

// A Blame is a regression of failure on the logarithm of the units in flight.
// It tells failures that load causes from background failures.
type Blame struct {
	n, bad    float64 // samples; failures among them
	x, xx, bx float64 // sums of the logarithm, of its square, and of that of failures
	weight    float64 // of the failures
	most      int     // the most units in flight
}

// maxSamples is the number of samples at which the earlier ones count half.
const maxSamples = 1600

// Add adds a sample with the logarithm x of its units in flight.
func (b *Blame) Add(inflight int, x float64, bad bool, weight, cost float64) {
	if b.n >= maxSamples {
		b.n, b.bad, b.x, b.xx, b.bx, b.weight = b.n/2, b.bad/2, b.x/2, b.xx/2, b.bx/2, b.weight/2
	}
	b.n += cost
	b.most = max(b.most, inflight)
	b.x += cost * x
	b.xx += cost * x * x
	if bad {
		b.bad += cost
		b.weight += cost * weight
		b.bx += cost * x
	}
}

// Elasticity returns by how much the log-odds of failure grow with the
// logarithm of the units in flight, and the standard error of that: the slope of
// a logistic regression, to first order. The error is infinite as long as too
// little is known.
func (b *Blame) Elasticity() (e, se float64) {
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

// AtLeast is the Elasticity less two standard errors, and AtMost is it with one and a half more.
func (b *Blame) AtLeast() float64 { e, se := b.Elasticity(); return e - 2*se }
func (b *Blame) AtMost() float64  { e, se := b.Elasticity(); return e + 1.5*se }

// Samples is the number of samples.
func (b *Blame) Samples() int { return int(b.n) }

// Share is the weighed share of the work that failed.
func (b *Blame) Share() float64 { return b.weight / b.n }

// Onset returns the units in flight above which refusals begin: half a unit less than the
// geometric mean at refusals, but at least nearly the most that was in flight. Ok is
// false if too few requests were refused to tell.
func (b *Blame) Onset() (units float64, ok bool) {
	most := float64(b.most)
	return max(math.Exp(b.bx/b.bad)-0.5, min(most-1, 0.95*most)), b.bad >= 10
}
