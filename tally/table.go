package tally

import "time"

// A slot is the count of one key, known by its fingerprint. The fingerprint 0
// marks a slot that never held one.
type slot struct {
	print uint64
	count count
}

const (
	reach      = 32 // slots in which a key may be, from its home on
	slotsAPage = 167
	pageBytes  = 4096

	floorsAPage = 5 // what is left of a page
)

// A page is a small hash table of one page of memory, without pointers. A key
// has its slot within reach of its home. Slots are never emptied, so a search
// ends at the first that held no key yet; one that counts nothing any more is as
// good as empty, and is given to the next key that needs it.
type page struct {
	// floors join the live counts that were forgotten, of the keys whose homes
	// are in each part of the page. A key without a slot may have been one of
	// those, so it starts from there.
	floors [floorsAPage]count
	depth  uint8 // bits of prefix that all its keys share
	slots  [slotsAPage]slot
}

// floor returns the floor of a fingerprint.
func (p *page) floor(print uint64) *count {
	return &p.floors[uint64(uint32(print))*floorsAPage>>32]
}

// home returns the first slot that a fingerprint may have.
func home(print uint64) int {
	return int(uint64(uint32(print)) * slotsAPage >> 32)
}

// find returns the slot of a fingerprint, or nil if it has none.
func (p *page) find(print uint64) *slot {
	i := home(print)
	for range reach {
		s := &p.slots[i]
		if s.print == print {
			return s
		}
		if s.print == 0 {
			break
		}
		if i++; i == slotsAPage {
			i = 0
		}
	}
	return nil
}

// spare returns the slot for a fingerprint that has none: one that counts
// nothing or, if there is none within reach, the one of least weight, which is
// live.
func (p *page) spare(print uint64, r *rule, m *moment) (best *slot, live bool) {
	var least float64
	i := home(print)
	for range reach {
		s := &p.slots[i]
		w := r.weight(s.count, m)
		if w == 0 {
			return s, false
		}
		if best == nil || w < least {
			best, least = s, w
		}
		if i++; i == slotsAPage {
			i = 0
		}
	}
	return best, true
}

// put gives a slot to a fingerprint. What it holds, if that is live, is
// forgotten.
func (p *page) put(s *slot, print uint64, c count, live bool, r *rule, now time.Duration) {
	if live {
		floor := p.floor(s.print)
		*floor = r.join(*floor, s.count, now)
	}
	s.print, s.count = print, c
}

// A directory finds the page of a fingerprint by its prefix, and grows page by
// page: one whose slots within reach of a home are full is split in two, and no
// other is touched (extendible hashing: Fagin and others, 1979).
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
// it forgot because there is no slot within their reach all the same. What
// counts nothing is dropped.
func (d *directory) split(p *page, print, shards uint64, r *rule, m *moment) (forgotten int) {
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
	half := 1 << (d.depth - p.depth)
	for i := range half {
		d.pages[first+half+i] = sibling
	}
	was := p.slots
	p.slots = [slotsAPage]slot{}
	for _, s := range was {
		if r.weight(s.count, m) == 0 {
			continue
		}
		to := d.page(s.print, shards)
		at, live := to.spare(s.print, r, m)
		if to.put(at, s.print, s.count, live, r, m.now); live {
			forgotten++
		}
	}
	return forgotten
}
