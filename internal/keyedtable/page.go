package keyedtable

// A value is the state of one key, in one word (a) or two.
type value struct{ a, b uint64 }

// A law says what values mean.
type law interface {
	// weight is 0 if a value counts nothing: it is no different from none. Else,
	// the greater it is, the more the key would gain if it was forgotten.
	weight(v value) uint64
	// join returns a value that is at no time less than either.
	join(v, w value) value
	// spare returns the index of the value that a fingerprint without a slot may
	// have: one that counts nothing or, if there is none within reach, the one of
	// least weight, which is live.
	spare(l *layout, p *page, print uint64) (at int, live bool)
}

const (
	pageWords = 512
	pageBytes = 8 * pageWords

	reach = 32 // slots in which a key may be, from its home on
)

// A page is a small hash table of one page of memory, without pointers: a word
// for the number of bits of prefix that all its keys share, then floors, then
// slots. A slot is the fingerprint of a key and its value; the fingerprint 0
// marks a slot that never held one.
//
// A key has its slot within reach of its home. Slots are never emptied, so a
// search ends at the first that held no key yet. A slot with a value that counts
// nothing is as good as empty, and is given to the next key that needs it.
//
// Each floor belongs to a part of the page. It joins the values that were
// forgotten while they counted, of the keys with their homes in that part. A key
// without a slot may have been one of them, so it starts from there.
type page [pageWords]uint64

func (p *page) depth() uint8 { return uint8(p[0]) }

// A layout says where the slots of a page are. A value is referred to by the
// index of its first word; the fingerprint is the word before.
type layout struct {
	words  int // of a slot
	slots  int
	first  int // the index of the first slot
	homes  int // slots at which a search begins; they are a multiple of each other
	group  int // words from one home to the next
	floors int
}

func newLayout(words, slots, group int) *layout {
	first := pageWords - slots*words
	return &layout{words, slots, first, slots / group, group * words, (first - 1) / (words - 1)}
}

var (
	// bucketLayout has homes at the beginning of cache lines.
	bucketLayout = newLayout(2, 252, 4)
	windowLayout = newLayout(3, 167, 1)
)

func (l *layout) get(p *page, at int) value {
	v := value{a: p[at]}
	if l.words == 3 {
		v.b = p[at+1]
	}
	return v
}

func (l *layout) set(p *page, at int, v value) {
	if p[at] = v.a; l.words == 3 {
		p[at+1] = v.b
	}
}

// floor returns the index of the floor of a fingerprint.
func (l *layout) floor(print uint64) int {
	return 1 + int(uint64(uint32(print))*uint64(l.floors)>>32)*(l.words-1)
}

// near returns the first slots within reach of a fingerprint in a page of buckets:
// a cache line.
func near(p *page, print uint64) *[8]uint64 {
	return (*[8]uint64)(p[8+int(uint64(uint32(print))*63>>32)*8:])
}

// home returns the index of the slot at which the search for a fingerprint
// begins.
func (l *layout) home(print uint64) int {
	return l.first + int(uint64(uint32(print))*uint64(l.homes)>>32)*l.group
}

// find returns the index of the value of a fingerprint; 0 if it has no slot.
func (l *layout) find(p *page, print uint64) int {
	i := l.home(print)
	for range reach {
		switch p[i] {
		case print:
			return i + 1
		case 0:
			return 0
		}
		if i += l.words; i >= pageWords {
			i = l.first
		}
	}
	return 0
}

// put gives a slot to a fingerprint. The value there, if it is live, is
// forgotten.
func put[L law](l *layout, p *page, at int, print uint64, v value, live bool, by L) {
	if live {
		f := l.floor(p[at-1])
		l.set(p, f, by.join(l.get(p, f), l.get(p, at)))
	}
	p[at-1] = print
	l.set(p, at, v)
}

// values calls f with the index of each value and floor, so that it can change
// them.
func (l *layout) values(f func(at int)) {
	for i := range l.floors {
		f(1 + i*(l.words-1))
	}
	for i := l.first; i < pageWords; i += l.words {
		f(i + 1)
	}
}

// A directory finds the page of a fingerprint by its prefix, and grows page by
// page: if all slots within reach of a home are full, the page is split in two, and
// no other is touched (extendible hashing: Fagin and others, 1979).
type directory struct {
	pages []*page // one for every prefix of depth bits; neighbours may share it
	depth uint8
}

// prefix returns the leading bits of what is left of a fingerprint once it has
// chosen one of the shards. The lower half of it chooses the home.
func prefix(print, shards uint64, depth uint8) int {
	return int(print * shards >> (64 - depth))
}

func (d *directory) page(print, shards uint64) *page {
	return d.pages[prefix(print, shards, d.depth)]
}

// all calls f with each page.
func (d *directory) all(f func(*page)) {
	var last *page
	for _, p := range d.pages {
		if p != last { // neighbours may be the same
			f(p)
		}
		last = p
	}
}

// split moves about half the keys of a page to a new one. It drops values that
// count nothing, and returns how many live ones it forgot because there is no
// slot within their reach all the same.
func split[L law](d *directory, l *layout, p *page, print, shards uint64, by L) (forgotten uint64) {
	if p.depth() == d.depth {
		pages := make([]*page, 2*len(d.pages))
		for i := range pages {
			pages[i] = d.pages[i/2]
		}
		d.pages = pages
		d.depth++
	}
	was := *p
	clear(p[l.first:])
	p[0]++
	sibling := new(page)
	*sibling = *p
	count := 1 << (d.depth - p.depth())
	first := prefix(print, shards, was.depth()) * 2 * count
	for i := range count {
		d.pages[first+count+i] = sibling
	}
	for i := l.first; i < pageWords; i += l.words {
		v := l.get(&was, i+1)
		if by.weight(v) == 0 {
			continue
		}
		to := d.page(was[i], shards)
		at, live := by.spare(l, to, was[i])
		if put(l, to, at, was[i], v, live, by); live {
			forgotten++
		}
	}
	return forgotten
}
