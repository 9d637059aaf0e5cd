package allocator

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// demands are the demands of all leaves, ordered by level, in blocks that have the sums of
// their demands. With 20,000 leaves there are some 500 blocks. There is always the first one,
// so that the demands of few leaves are in one piece of memory.
type demands struct {
	first block // empty only if it is the only one
	more  []block
}

// maxBlock bounds the demands of a block.
const maxBlock = 64

// A block is a part of the demands.
type block struct {
	list []demand
	sums
}

// A demand has the wants and the weight of one leaf. Equal demands are not told apart.
type demand struct {
	level  float64 // the share of a weight of 1 at which the leaf has all it wants
	weight float64
}

// sums are sums over leaves. A root is the square root of a leaf's wants.
type sums struct{ wants, weight, roots float64 }

func (s *sums) add(o sums) {
	s.wants += o.wants
	s.weight += o.weight
	s.roots += o.roots
}

func (d demand) sums() sums { return sums{d.wants(), d.weight, d.root()} }

func (d demand) root() float64 { return math.Sqrt(d.wants()) }

func (d demand) wants() float64 { return d.level * d.weight }

func (d demand) compare(e demand) int {
	return cmp.Or(cmp.Compare(d.level, e.level), cmp.Compare(d.weight, e.weight))
}

// sum sets the sums of a block.
func (b *block) sum() {
	b.sums = sums{}
	for _, d := range b.list {
		b.add(d.sums())
	}
}

// at returns the block with an index.
func (t *demands) at(i int) *block {
	if i == 0 {
		return &t.first
	}
	return &t.more[i-1]
}

// find returns the index of the block that has a demand, or where it belongs.
func (t *demands) find(d demand) int {
	if len(t.more) == 0 {
		return 0
	}
	return sort.Search(len(t.more), func(i int) bool { return t.more[i].list[0].compare(d) > 0 })
}

// insert adds a demand.
func (t *demands) insert(d demand) {
	i := t.find(d)
	b := t.at(i)
	at, _ := slices.BinarySearchFunc(b.list, d, demand.compare)
	b.list = slices.Insert(b.list, at, d)
	if len(b.list) > maxBlock {
		half := len(b.list) / 2
		next := block{list: slices.Clone(b.list[half:])}
		next.sum()
		b.list = b.list[:half]
		t.more = slices.Insert(t.more, i, next)
		b = t.at(i)
	}
	b.sum()
}

// remove removes a demand that is there.
func (t *demands) remove(d demand) {
	i := t.find(d)
	b := t.at(i)
	at, found := slices.BinarySearchFunc(b.list, d, demand.compare)
	if !found {
		panic("allocator: no such demand")
	}
	b.list = slices.Delete(b.list, at, at+1)
	switch {
	case len(b.list) > 0 || len(t.more) == 0:
		b.sum()
	case i == 0:
		t.first = t.more[0]
		t.more = slices.Delete(t.more, 0, 1)
	default:
		t.more = slices.Delete(t.more, i-1, i)
	}
}

// all returns the sums of all demands.
func (t *demands) all() sums {
	all := t.first.sums
	for i := range t.more {
		all.add(t.more[i].sums)
	}
	return all
}

// level returns the share of a weight of 1 at which the limit is used up: infinity if the
// leaves do not want more than the limit. It also returns the sums of the leaves that get all they
// want.
func (t *demands) level(all sums, limit float64) (level float64, below sums) {
	if all.wants <= limit {
		return math.Inf(1), all
	}
	// Leaves before the level get all they want; the others share what is left.
	below = t.while(func(level float64, to sums) bool { return to.wants+level*(all.weight-to.weight) <= limit })
	if below.weight >= all.weight {
		return math.Inf(1), all // all fit, but for rounding
	}
	return max((limit-below.wants)/(all.weight-below.weight), 0), below
}

// while returns the sums of the first demands: as long as fits, of the level of the last of them and
// the sums up to it, holds.
func (t *demands) while(fits func(level float64, to sums) bool) (to sums) {
	for i := range 1 + len(t.more) {
		b := t.at(i)
		if len(b.list) == 0 {
			return to
		}
		next := to
		if next.add(b.sums); fits(b.list[len(b.list)-1].level, next) {
			to = next
			continue
		}
		for _, d := range b.list {
			next := to
			if next.add(d.sums()); !fits(d.level, next) {
				return to
			}
			to = next
		}
	}
	return to
}
