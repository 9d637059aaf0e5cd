package cache

import "sync/atomic"

// stub: FIFO, until the policy comes
type node[K comparable, V any] struct {
	hash       uint64
	cost       int64
	freq       atomic.Uint32
	prev, next *entry[K, V]
}

func (n *node[K, V]) touch() {
	if f := n.freq.Load(); f < 3 {
		n.freq.Store(f + 1)
	}
}

type policy[K comparable, V any] struct {
	bound, cost int64
	head, tail  *entry[K, V]
}

func (p *policy[K, V]) init(bound int64, seed uint64) { p.bound = bound }
func (p *policy[K, V]) missed(hash uint64)            {}
func (p *policy[K, V]) add(e *entry[K, V]) {
	p.cost += e.cost
	e.prev = p.tail
	if p.tail != nil {
		p.tail.next = e
	} else {
		p.head = e
	}
	p.tail = e
}
func (p *policy[K, V]) evict() *entry[K, V] {
	if p.cost <= p.bound {
		return nil
	}
	e := p.head
	p.remove(e)
	return e
}
func (p *policy[K, V]) replace(old, e *entry[K, V]) {
	p.remove(old)
	p.add(e)
}
func (p *policy[K, V]) remove(e *entry[K, V]) {
	p.cost -= e.cost
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		p.head = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		p.tail = e.prev
	}
	e.prev, e.next = nil, nil
}
