package allocator

import (
	"math"
	"math/rand/v2"
)

// demands are the demands of all leaves: a treap (Seidel and Aragon, 1996), ordered by
// wants for each weight, in which each node has the sums of its subtree.
type demands struct {
	root       *demand
	priorities rand.PCG
	inserted   uint64
}

// A demand has the rate that one leaf wants.
type demand struct {
	wants, weight float64
	seq           uint64 // orders equal demands

	priority    uint64
	left, right *demand
	total       sums // of the subtree
}

// sums are sums over leaves.
type sums struct{ wants, weight float64 }

func (s sums) plus(t sums) sums { return sums{s.wants + t.wants, s.weight + t.weight} }

// level is the share of a weight of 1 at which the leaf has all it wants.
func (d *demand) level() float64 { return d.wants / d.weight }

func (d *demand) own() sums { return sums{d.wants, d.weight} }

// sum returns the sums of a subtree, which may be empty.
func (d *demand) sum() sums {
	if d == nil {
		return sums{}
	}
	return d.total
}

func (d *demand) before(e *demand) bool {
	if a, b := d.level(), e.level(); a != b {
		return a < b
	}
	return d.seq < e.seq
}

func (d *demand) update() { d.total = d.left.sum().plus(d.own()).plus(d.right.sum()) }

// insert adds a demand that is not there.
func (t *demands) insert(d *demand) {
	t.inserted++
	d.seq, d.priority = t.inserted, t.priorities.Uint64()
	t.root = t.root.insert(d)
}

func (n *demand) insert(d *demand) *demand {
	switch {
	case n == nil:
		d.left, d.right = nil, nil
		n = d
	case d.priority > n.priority:
		d.left, d.right = n.split(d)
		n = d
	case d.before(n):
		n.left = n.left.insert(d)
	default:
		n.right = n.right.insert(d)
	}
	n.update()
	return n
}

// split returns the demands before d, and the others.
func (n *demand) split(d *demand) (before, after *demand) {
	if n == nil {
		return nil, nil
	}
	if n.before(d) {
		before = n
		n.right, after = n.right.split(d)
	} else {
		after = n
		before, n.left = n.left.split(d)
	}
	n.update()
	return before, after
}

// remove removes a demand that is there. It must not have changed since.
func (t *demands) remove(d *demand) { t.root = t.root.remove(d) }

func (n *demand) remove(d *demand) *demand {
	switch {
	case n == d:
		return join(d.left, d.right)
	case d.before(n):
		n.left = n.left.remove(d)
	default:
		n.right = n.right.remove(d)
	}
	n.update()
	return n
}

// join joins two treaps of which the first comes before the second.
func join(a, b *demand) *demand {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		a.right = join(a.right, b)
		a.update()
		return a
	default:
		b.left = join(a, b.left)
		b.update()
		return b
	}
}

// share returns the max-min fair share of a leaf at a level. If all leaves get what they
// want, it includes the leaf's part of the rest.
func (t *demands) share(d *demand, limit, level float64) float64 {
	if math.IsInf(level, 1) {
		return d.wants + max(limit-t.root.total.wants, 0)*d.weight/(t.root.total.weight+1)
	}
	return min(d.wants, d.weight*level)
}

// level returns the share of a weight of 1 at which the limit is used up: infinity if the
// leaves do not want more than the limit.
func (t *demands) level(limit float64) float64 {
	if t.root.sum().wants <= limit {
		return math.Inf(1)
	}
	var less sums // of leaves that get all they want
	for n := t.root; n != nil; {
		here := less.plus(n.left.sum()).plus(n.own())
		if here.wants+n.level()*(t.root.total.weight-here.weight) <= limit {
			less, n = here, n.right
		} else {
			n = n.left
		}
	}
	return (limit - less.wants) / (t.root.total.weight - less.weight)
}
