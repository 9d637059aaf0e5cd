package keyed

import (
	"github.com/weir-go/weir/gcra"
)

// A slot is the bucket of one key, known by its fingerprint. The fingerprint 0
// marks a slot that never held one.
type slot struct {
	print  uint64
	bucket gcra.Bucket
}

const (
	group      = 4  // slots a cache line
	window     = 32 // slots in which a key may be, from its home on
	slotsAPage = 252
	pageBytes  = 4096

	floorsAPage = 7 // what is left of a page's first cache line
)

// A page is a small hash table of one page of memory, without pointers. A key
// has its slot in the window that begins at its home. Slots are never emptied,
// so a search ends at the first that held no key yet; one whose bucket is full
// again is as good as empty, and is given to the next key that needs it.
type page struct {
	// floors are the greatest buckets that were forgotten while in debt, of
	// the keys whose homes are in each part of the page. A key without a slot
	// may have been that one, so it starts from there.
	floors [floorsAPage]gcra.Bucket
	depth  uint8 // bits of prefix that all its keys share
	_      [64 - 8*floorsAPage - 1]byte
	slots  [slotsAPage]slot
}

// floor returns the floor of a fingerprint.
func (p *page) floor(print uint64) *gcra.Bucket {
	return &p.floors[uint64(uint32(print))*floorsAPage>>32]
}

// home returns the first slot of a fingerprint's window.
func home(print uint64) int {
	return int(uint64(uint32(print))*(slotsAPage/group)>>32) * group
}

// near returns the first slots of a fingerprint's window: a cache line.
func (p *page) near(print uint64) *[group]slot {
	return (*[group]slot)(p.slots[home(print):])
}

// find returns the slot of a fingerprint or, if it has none, the one that it
// may have: a free one or, if its window has none, the one in least debt.
// Buckets up to level are full.
func (p *page) find(print uint64, level gcra.Bucket) (s *slot, found bool) {
	var best *slot
	i := home(print)
	for range window {
		s := &p.slots[i]
		if s.print == print {
			return s, true
		}
		if best == nil || s.bucket < best.bucket && best.bucket > level {
			best = s // an empty slot has a full bucket
		}
		if s.print == 0 {
			break
		}
		if i++; i == slotsAPage {
			i = 0
		}
	}
	return best, false
}

// put gives a slot to a fingerprint, and reports whether what was in it is
// forgotten in debt.
func (p *page) put(s *slot, print uint64, b, level gcra.Bucket) (forgotten bool) {
	if s.bucket > level {
		floor := p.floor(s.print)
		*floor = max(*floor, s.bucket)
		forgotten = true
	}
	s.print, s.bucket = print, b
	return forgotten
}

// A directory finds the page of a fingerprint by its prefix, and grows page by
// page: one whose window is full is split in two, and no other is touched
// (extendible hashing: Fagin and others, 1979).
type directory struct {
	pages []*page // one for every prefix of depth bits; neighbours may share it
	depth uint8
}

// prefix returns the leading bits of what is left of a fingerprint once it has
// chosen one of so many shards. The lower half of it chooses the home.
func prefix(print, shards uint64, depth uint8) int {
	return int(print * shards >> (64 - depth))
}

func (d *directory) page(print, shards uint64) *page {
	return d.pages[prefix(print, shards, d.depth)]
}

// split moves about half the keys of a page to a new one, and returns how many
// it forgot in debt because their windows are full all the same. What is full
// again is dropped.
func (d *directory) split(p *page, print, shards uint64, level gcra.Bucket) (forgotten int) {
	if p.depth == d.depth {
		pages := make([]*page, 2*len(d.pages))
		for i := range pages {
			pages[i] = d.pages[i/2]
		}
		d.pages = pages
		d.depth++
	}
	sibling := &page{floors: p.floors, depth: p.depth + 1}
	first := prefix(print, shards, p.depth) << (d.depth - p.depth)
	p.depth++
	count := 1 << (d.depth - p.depth)
	for i := range count {
		d.pages[first+count+i] = sibling
	}
	was := p.slots
	p.slots = [slotsAPage]slot{}
	for _, s := range was {
		if s.bucket <= level {
			continue
		}
		to := d.page(s.print, shards)
		at, _ := to.find(s.print, level)
		if to.put(at, s.print, s.bucket, level) {
			forgotten++
		}
	}
	return forgotten
}
