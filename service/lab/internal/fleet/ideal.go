package fleet

import (
	"math/rand/v2"
	"time"
)

// idealEvery is the time between two computations of the shares.
const idealEvery = time.Second

// idealPolicy knows what each leaf wants, without a measure and without exchanges: each leaf has a bucket with
// its max-min fair share of the rate, and the same part of the burst. What it lacks of fairness is the noise of
// requests that come at random: no allocator that assigns rates in advance knows more.
type idealPolicy struct {
	sim    *Sim
	at     time.Duration
	shares [][]float64 // by key and leaf
}

func (p *idealPolicy) node(now time.Duration, _ string, leaf int, _ *rand.Rand) node {
	p.shares = nil // there is a leaf more
	n := &idealNode{policy: p, leaf: leaf, buckets: buckets(p.sim.keys, 0, now)}
	for i := range n.buckets {
		n.buckets[i].tokens = 0
	}
	return n
}

func (p *idealPolicy) centre(time.Duration) centre   { return nil }
func (p *idealPolicy) leave(time.Duration, node) any { return nil }

// share returns the share of a leaf.
func (p *idealPolicy) share(now time.Duration, leaf int, key int32) float64 {
	if p.shares == nil || now >= p.at+idealEvery {
		p.shares, p.at = make([][]float64, len(p.sim.keys)), now.Truncate(idealEvery)
	}
	if p.shares[key] == nil {
		p.shares[key] = p.sim.shares(key)
	}
	return p.shares[key][leaf]
}

type idealNode struct {
	policy  *idealPolicy
	leaf    int
	buckets []bucket
}

func (n *idealNode) allow(now time.Duration, key int32) (bool, step) {
	k, b := n.policy.sim.keys[key], &n.buckets[key]
	if rate := n.policy.share(now, n.leaf, key); rate != b.rate {
		b.change(now, rate, max(k.burst*rate/k.rate, 1))
	}
	return b.take(now), assigned
}

func (n *idealNode) due() time.Duration            { return never }
func (n *idealNode) send(time.Duration) (any, int) { return nil, 0 }
func (n *idealNode) receive(time.Duration, any)    {}
func (n *idealNode) rate() float64                 { return n.buckets[0].rate }
