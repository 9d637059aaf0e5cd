package fleet

import (
	"math/rand/v2"
	"time"
)

// Reports of the optimistic policy.
const (
	optimisticEvery = 100 * time.Millisecond
	// optimisticMemory is how fast the upstream forgets demand, and within which it wants
	// an excess back.
	optimisticMemory = time.Second
)

// optimisticPolicy is the one of Databricks (High Performance Ratelimiting at Databricks,
// 2025): a leaf allows by chance, and reports what it counted. The upstream has a bucket
// for each key that can be in debt, up to the burst and a second's refill, and answers with the part of the requests to deny.
type optimisticPolicy struct{ keys []limited }

func (p optimisticPolicy) node(now time.Duration, _ string, _ int, rng *rand.Rand) node {
	first := time.Duration(rng.Float64() * float64(optimisticEvery))
	return &optimisticNode{rng: rng, counts: make([]count, len(p.keys)), deny: make([]float64, len(p.keys)), next: now + first}
}

func (p optimisticPolicy) centre(now time.Duration) centre {
	return &optimisticCentre{buckets: buckets(p.keys, 1, now), demand: make([]decaying, len(p.keys))}
}

func (p optimisticPolicy) leave(time.Duration, node) any { return nil }

// A count has the requests of a key since the last report.
type count struct{ offered, allowed int }

// A keyCount is a count in a report.
type keyCount struct {
	key int32
	count
}

type optimisticNode struct {
	rng    *rand.Rand
	counts []count
	deny   []float64
	sent   []keyCount // of the exchange that is on its way
	next   time.Duration
}

func (n *optimisticNode) allow(_ time.Duration, key int32) (bool, step) {
	c := &n.counts[key]
	c.offered++
	if p := n.deny[key]; p > 0 && n.rng.Float64() < p {
		return false, assigned
	}
	c.allowed++
	return true, assigned
}

func (n *optimisticNode) due() time.Duration { return n.next }

func (n *optimisticNode) send(now time.Duration) (any, int) {
	n.next = never
	n.sent = nil
	for key, c := range n.counts {
		if c.offered > 0 {
			n.sent = append(n.sent, keyCount{int32(key), c})
			n.counts[key] = count{}
		}
	}
	return n.sent, len(n.sent)
}

// receive takes the parts to deny. Counts without an answer are lost.
func (n *optimisticNode) receive(now time.Duration, answer any) {
	n.next = now + optimisticEvery
	if parts, answered := answer.([]float64); answered {
		for i, sent := range n.sent {
			n.deny[sent.key] = parts[i]
		}
	}
	n.sent = nil
}

func (n *optimisticNode) rate() float64 { return notKnown }

type optimisticCentre struct {
	buckets []bucket
	demand  []decaying
}

func (c *optimisticCentre) answer(now time.Duration, message any) any {
	counts := message.([]keyCount)
	parts := make([]float64, len(counts))
	for i, k := range counts {
		b, d := &c.buckets[k.key], &c.demand[k.key]
		b.fill(now)
		b.tokens = max(b.tokens-float64(k.allowed), -b.burst-b.rate*optimisticMemory.Seconds())
		d.add(now, float64(k.offered))
		if demand := d.rate(now); demand > 0 {
			spend := b.rate + b.tokens/optimisticMemory.Seconds()
			parts[i] = min(max(1-spend/demand, 0), 1)
		}
	}
	return parts
}
