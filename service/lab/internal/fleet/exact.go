package fleet

import (
	"math"
	"math/rand/v2"
	"time"
)

// exactPolicy decides with one bucket for each key: the oracle, to which each decision
// would be a round trip. The leaves of a slot come one after another, so a bucket has at
// least the refill of a slot.
type exactPolicy struct {
	keys    []limited
	buckets []bucket
}

func (p *exactPolicy) node(time.Duration, string, int, *rand.Rand) node { return p }
func (p *exactPolicy) centre(time.Duration) centre                      { return nil }
func (p *exactPolicy) leave(time.Duration, node) any                    { return nil }

func (p *exactPolicy) allow(now time.Duration, key int32) (bool, step) {
	b := &p.buckets[key]
	b.burst = max(p.keys[key].burst, b.rate*slot.Seconds())
	return b.take((now + slot).Truncate(slot)), exact
}

func (p *exactPolicy) due() time.Duration            { return never }
func (p *exactPolicy) send(time.Duration) (any, int) { return nil, 0 }
func (p *exactPolicy) receive(time.Duration, any)    {}
func (p *exactPolicy) rate() float64                 { return math.NaN() }

// staticPolicy gives each leaf the same part of the limit.
type staticPolicy struct {
	keys   []limited
	leaves int
}

func (p staticPolicy) node(now time.Duration, _ string, _ int, _ *rand.Rand) node {
	return staticNode(buckets(p.keys, 1/float64(p.leaves), now))
}
func (p staticPolicy) centre(time.Duration) centre   { return nil }
func (p staticPolicy) leave(time.Duration, node) any { return nil }

type staticNode []bucket

func (n staticNode) allow(now time.Duration, key int32) (bool, step) { return n[key].take(now), share }
func (n staticNode) due() time.Duration                              { return never }
func (n staticNode) send(time.Duration) (any, int)                   { return nil, 0 }
func (n staticNode) receive(time.Duration, any)                      {}
func (n staticNode) rate() float64                                   { return n[0].rate }
