// Package pagetable keeps the state of many keys in pages of memory without
// pointers, which the garbage collector does not look into.
//
// A key costs its fingerprint and one or two words. A Page is a small hash table; a
// Directory finds the page of a fingerprint, and splits a page that is full. A Law says
// what the words mean, so that a value that counts nothing any more is overwritten, and
// the one of least weight is forgotten if there is no room.
//
//	at := pagetable.Buckets.Find(page, print)
//	if at == 0 {
//		at, live := level.Spare(pagetable.Buckets, page, print)
//		pagetable.Put(pagetable.Buckets, page, at, print, value, live, level)
//	}
//
// There are two laws: Level for the buckets of package gcra, and Moment, which a
// Rule makes, for the counts of package window. The package takes the instant, and
// has no lock.
package pagetable

import (
	"math"
	"slices"

	"github.com/weir-go/weir/gcra"
)

// A Value is the state of one key, in one word (a) or two.
type Value struct{ A, B uint64 }

// A Law says what values mean.
type Law interface {
	// Weight is 0 if a Value counts nothing: it is no different from none. Else,
	// the greater it is, the more the key would gain if it was forgotten.
	Weight(v Value) uint64
	// Join returns a Value that is at no time less than either.
	Join(v, w Value) Value
	// Spare returns the index of the value that a fingerprint without a slot may
	// have: one that counts nothing or, if there is none within reach, the one of
	// least weight, which is live.
	Spare(l *Layout, p *Page, print uint64) (at int, live bool)
}

// The size of a Page.
const (
	Words = 512
	Bytes = 8 * Words
)

const (
	reach = 32 // slots in which a key may be, from its home on
)

// A Page is a small hash table of one page of memory, without pointers: a word
// for the number of bits of prefix that all its keys share, then floors, then
// slots. A slot is the fingerprint of a key and its value; the fingerprint 0
// marks a slot that never held one.
//
// A key has its slot within reach of its home. Slots are never emptied, so a
// search ends at the first that held no key yet. A slot with a Value that counts
// nothing is as good as empty, and is given to the next key that needs it.
//
// Each floor belongs to a part of the page. It joins the values that were
// forgotten while they counted, of the keys with their homes in that part. A key
// without a slot may have been one of them, so it starts from there.
type Page [Words]uint64

// Depth returns the number of bits of prefix that all keys of the Page share.
func (p *Page) Depth() uint8 { return uint8(p[0]) }

// A Layout says where the slots of a page are. A value is referred to by the
// index of its first word; the fingerprint is the word before.
type Layout struct {
	Words  int // of a slot
	slots  int
	First  int // the index of the first slot
	homes  int // slots at which a search begins; they are a multiple of each other
	group  int // words from one home to the next
	floors int
}

func newLayout(words, slots, group int) *Layout {
	first := Words - slots*words
	return &Layout{words, slots, first, slots / group, group * words, (first - 1) / (words - 1)}
}

// Buckets is the Layout for values of one word, with homes at the beginning of
// cache lines. Windows is the Layout for values of two words.
var (
	Buckets = newLayout(2, 252, 4)
	Windows = newLayout(3, 167, 1)
)

// Get returns the value with an index.
func (l *Layout) Get(p *Page, at int) Value {
	v := Value{A: p[at]}
	if l.Words == 3 {
		v.B = p[at+1]
	}
	return v
}

// Set sets the value with an index.
func (l *Layout) Set(p *Page, at int, v Value) {
	if p[at] = v.A; l.Words == 3 {
		p[at+1] = v.B
	}
}

// Floor returns the index, in a page, of the floor (see Page) for the part that a
// fingerprint belongs to.
func (l *Layout) Floor(print uint64) int {
	return 1 + int(uint64(uint32(print))*uint64(l.floors)>>32)*(l.Words-1)
}

// bucketHome is Buckets.home, with constants.
func bucketHome(print uint64) int {
	return bucketFirst + int(uint64(uint32(print))*63>>32)*8
}

const bucketFirst = 8

// Near returns the first slots within reach of a fingerprint in a page of buckets:
// a cache line.
func Near(p *Page, print uint64) *[8]uint64 { return (*[8]uint64)(p[bucketHome(print):]) }

// home returns the index of the slot at which the search for a fingerprint
// begins.
func (l *Layout) home(print uint64) int {
	return l.First + int(uint64(uint32(print))*uint64(l.homes)>>32)*l.group
}

// Find returns the index of the value of a fingerprint; 0 if it has no slot.
func (l *Layout) Find(p *Page, print uint64) int {
	i := l.home(print)
	for range reach {
		switch p[i] {
		case print:
			return i + 1
		case 0:
			return 0
		}
		if i += l.Words; i >= Words {
			i = l.First
		}
	}
	return 0
}

// Put gives a slot to a fingerprint. The value there, if it is live, is
// forgotten.
func Put[L Law](l *Layout, p *Page, at int, print uint64, v Value, live bool, by L) {
	if live {
		f := l.Floor(p[at-1])
		l.Set(p, f, by.Join(l.Get(p, f), l.Get(p, at)))
	}
	p[at-1] = print
	l.Set(p, at, v)
}

// A Directory finds the page of a fingerprint by its prefix, and grows page by
// page: if all slots within reach of a home are full, the page is split in two, and
// no other is touched (extendible hashing: Fagin and others, 1979).
type Directory struct {
	Pages []*Page // one for every prefix of depth bits; neighbours may share it
	Depth uint8
}

// Prefix returns the leading bits of what is left of a fingerprint once it has
// chosen one of the shards. The lower half of it chooses the home.
func Prefix(print, shards uint64, depth uint8) int {
	return int(print * shards >> (64 - depth))
}

// Page returns the page of a fingerprint.
func (d *Directory) Page(print, shards uint64) *Page {
	return d.Pages[Prefix(print, shards, d.Depth)]
}

// Change changes all values and floors.
func (d *Directory) Change(l *Layout, f func(Value) Value) {
	for i, p := range d.Pages {
		if i > 0 && p == d.Pages[i-1] { // neighbours may be the same
			continue
		}
		for at := 1; at <= l.floors*(l.Words-1); at += l.Words - 1 {
			l.Set(p, at, f(l.Get(p, at)))
		}
		for at := l.First + 1; at < Words; at += l.Words {
			l.Set(p, at, f(l.Get(p, at)))
		}
	}
}

// Split moves about half the keys of a page to a new one. It drops values that
// count nothing, and returns how many live ones it forgot because there is no
// slot within their reach all the same.
func Split[L Law](d *Directory, l *Layout, p *Page, print, shards uint64, by L) (forgotten uint64) {
	if p.Depth() == d.Depth {
		pages := make([]*Page, 2*len(d.Pages))
		for i := range pages {
			pages[i] = d.Pages[i/2]
		}
		d.Pages = pages
		d.Depth++
	}
	was := *p
	clear(p[l.First:])
	p[0]++
	sibling := new(Page)
	*sibling = *p
	count := 1 << (d.Depth - p.Depth())
	first := Prefix(print, shards, was.Depth()) * 2 * count
	for i := range count {
		d.Pages[first+count+i] = sibling
	}
	for i := l.First; i < Words; i += l.Words {
		v := l.Get(&was, i+1)
		if by.Weight(v) == 0 {
			continue
		}
		to := d.Page(was[i], shards)
		at, live := by.Spare(l, to, was[i])
		if Put(l, to, at, was[i], v, live, by); live {
			forgotten++
		}
	}
	return forgotten
}

// Merge joins pages until no prefix has more bits than depth. Where values do not fit,
// those of least weight are forgotten. It returns how many pages less there are, and how
// many live values were forgotten.
func Merge[L Law](d *Directory, l *Layout, depth uint8, by L) (less int, forgotten uint64) {
	if d.Depth <= depth {
		return 0, 0
	}
	was, n := d.Pages, 1<<(d.Depth-depth)
	d.Pages, d.Depth = make([]*Page, 1<<depth), depth
	for i := range d.Pages {
		parts := slices.Compact(was[i*n : (i+1)*n])
		if d.Pages[i] = parts[0]; parts[0].Depth() <= depth {
			continue
		}
		d.Pages[i] = new(Page)
		d.Pages[i][0] = uint64(depth)
		less += len(parts) - 1
		for _, from := range parts {
			forgotten += join(l, d.Pages[i], from, by)
		}
	}
	return less, forgotten
}

// join adds the floors and values of a page to the page into. It returns how many live values were
// forgotten, each because no slot within its reach was to spare.
func join[L Law](l *Layout, into, from *Page, by L) (forgotten uint64) {
	toFloor := func(f int, v Value) { l.Set(into, f, by.Join(l.Get(into, f), v)) }
	for at := 1; at <= l.floors*(l.Words-1); at += l.Words - 1 {
		toFloor(at, l.Get(from, at))
	}
	for i := l.First; i < Words; i += l.Words {
		v := l.Get(from, i+1)
		if by.Weight(v) == 0 {
			continue
		}
		at, live := by.Spare(l, into, from[i])
		if live { // of v and the value at the slot, the one of less weight is forgotten
			forgotten++
			if by.Weight(v) <= by.Weight(l.Get(into, at)) {
				toFloor(l.Floor(from[i]), v)
				continue
			}
		}
		Put(l, into, at, from[i], v, live, by)
	}
	return forgotten
}

// A Level is the Law of pages of token buckets: a bucket is full unless it is above the
// Level. See gcra.Quota.Level.
type Level gcra.Bucket

// Weight is how far the bucket is above the Level.
func (l Level) Weight(v Value) uint64 { return v.A - min(v.A, uint64(l)) }

// Join returns the greater bucket.
func (l Level) Join(v, w Value) Value { return Value{A: max(v.A, w.A)} }

// Spare implements Law.
func (l Level) Spare(_ *Layout, p *Page, print uint64) (at int, live bool) {
	_, at, live = l.Find(p, print)
	return at, live
}

// Find returns the index of the value of a fingerprint; if it has none, spare is the index that a new value can have. It does what
// Layout.Find and Spare do, in one loop without calls: with calls, a new key costs 1.5 times as much (BenchmarkFlood of package
// keyed).
func (l Level) Find(p *Page, print uint64) (at, spare int, live bool) {
	least := uint64(math.MaxUint64)
	i := bucketHome(print)
	for range reach {
		if p[i] == print {
			return i + 1, 0, false
		}
		if b := p[i+1]; b < least && least > uint64(l) {
			least, spare = b, i+1 // an empty slot has a full bucket
		}
		if p[i] == 0 {
			break
		}
		if i += 2; i == Words {
			i = bucketFirst
		}
	}
	return 0, spare, least > uint64(l)
}
