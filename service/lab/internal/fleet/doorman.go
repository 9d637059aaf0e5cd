package fleet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Times of the Doorman-like policy, as in its configuration and docs.
const (
	doormanRefresh = 5 * time.Second
	doormanLease   = 5 * time.Minute
)

// doormanPolicy is the FAIR_SHARE of Doorman (youtube/doorman): a leaf leases a capacity
// for 5 minutes and refreshes all leases every 5 s. The upstream never leases more than
// there is. After the lease, the leaf has the safe capacity, limit / leaves.
type doormanPolicy struct {
	keys   []limited
	leaves int
}

func (p doormanPolicy) node(now time.Duration, name string, _ int, rng *rand.Rand) node {
	n := &doormanNode{policy: p, name: name, buckets: buckets(p.keys, 0, now), wants: make([]int, len(p.keys)), wanted: make([]float64, len(p.keys)),
		since: now, next: now + time.Duration(rng.Float64()*0.2*float64(doormanRefresh)), until: now}
	for i := range n.buckets {
		n.buckets[i].tokens = 0
	}
	return n
}

func (p doormanPolicy) centre(now time.Duration) centre {
	c := &doormanCentre{keys: p.keys, tenants: map[string]*tenant{}, held: make([]float64, len(p.keys)), level: make([]float64, len(p.keys))}
	if now > 0 { // there may be leases of the one before
		c.learn = now + doormanLease
	}
	return c
}

func (p doormanPolicy) leave(_ time.Duration, n node) any {
	return doormanRequest{leaf: n.(*doormanNode).name}
}

// A doormanRequest refreshes the leases of all keys. Without them, it gives them back.
type doormanRequest struct {
	leaf       string
	wants, has []float64
}

type doormanNode struct {
	policy  doormanPolicy
	name    string
	buckets []bucket
	wants   []int     // requests since the last refresh
	wanted  []float64 // a second, smoothed
	since   time.Duration
	next    time.Duration
	until   time.Duration // of the leases
	safe    bool
}

func (n *doormanNode) allow(now time.Duration, key int32) (bool, step) {
	n.wants[key]++
	if now >= n.until && !n.safe {
		n.safe = true
		for i, k := range n.policy.keys {
			part := 1 / float64(n.policy.leaves)
			n.buckets[i].change(now, k.rate*part, max(k.burst*part, 1))
		}
	}
	if n.safe {
		return n.buckets[key].take(now), share
	}
	return n.buckets[key].take(now), assigned
}

func (n *doormanNode) due() time.Duration { return n.next }

func (n *doormanNode) send(now time.Duration) (any, int) {
	m := doormanRequest{n.name, make([]float64, len(n.wants)), make([]float64, len(n.wants))}
	for key, count := range n.wants {
		seen := float64(count) / max((now-n.since).Seconds(), 0.1)
		n.wanted[key] = (n.wanted[key] + seen) / 2
		m.wants[key], n.wants[key] = n.wanted[key], 0
		if !n.safe {
			m.has[key] = n.buckets[key].rate
		}
	}
	n.since, n.next = now, never
	return m, len(n.wants)
}

func (n *doormanNode) receive(now time.Duration, answer any) {
	n.next = now + doormanRefresh
	rates, answered := answer.([]float64)
	if !answered {
		return
	}
	n.until, n.safe = now+doormanLease, false
	for i, k := range n.policy.keys {
		n.buckets[i].change(now, rates[i], max(k.burst*rates[i]/max(k.rate, 1e-9), 1))
	}
}

func (n *doormanNode) rate() float64 { return n.buckets[0].rate }

// A lease is the capacity of one leaf for one key.
type lease struct{ wants, has float64 }

// A tenant is a leaf that has leases.
type tenant struct {
	leases []lease // by key
	until  time.Duration
}

// A doormanCentre computes the fair share of each key ten times a second, as it takes time
// in proportion to the number of leaves.
type doormanCentre struct {
	keys    []limited
	tenants map[string]*tenant
	order   []string  // of tenants
	held    []float64 // by key
	level   []float64 // by key: the most that a leaf gets
	leveled time.Duration
	learn   time.Duration
}

func (c *doormanCentre) answer(now time.Duration, message any) any {
	m := message.(doormanRequest)
	t := c.tenants[m.leaf]
	if m.wants == nil {
		if t != nil {
			c.drop(m.leaf)
		}
		return []float64(nil)
	}
	if t == nil {
		t = &tenant{leases: make([]lease, len(c.keys))}
		c.tenants[m.leaf] = t
		c.order = append(c.order, m.leaf)
	}
	t.until = now + doormanLease
	for key, wants := range m.wants {
		t.leases[key].wants = wants
	}
	c.share(now)
	rates := make([]float64, len(c.keys))
	for key := range rates {
		l := &t.leases[key]
		c.held[key] -= l.has
		rates[key] = max(min(c.level[key], l.wants, c.keys[key].rate-c.held[key]), 0)
		if now < c.learn {
			rates[key] = m.has[key]
		}
		l.has = rates[key]
		c.held[key] += l.has
	}
	return rates
}

// share ends leases, and computes the fair shares.
func (c *doormanCentre) share(now time.Duration) {
	if c.leveled != 0 && now-c.leveled < 100*time.Millisecond {
		return
	}
	c.leveled = now
	for _, name := range slices.Clone(c.order) {
		if c.tenants[name].until <= now {
			c.drop(name)
		}
	}
	wants := make([]float64, len(c.order))
	for key := range c.keys {
		for i, name := range c.order {
			wants[i] = c.tenants[name].leases[key].wants
		}
		c.level[key] = level(wants, c.keys[key].rate)
	}
}

func (c *doormanCentre) drop(name string) {
	for key, l := range c.tenants[name].leases {
		c.held[key] -= l.has
	}
	delete(c.tenants, name)
	c.order = slices.DeleteFunc(c.order, func(other string) bool { return other == name })
}
