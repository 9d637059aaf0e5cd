package cache

import "slices"

// A sketch estimates how often a hash was added recently: a count-min sketch
// (Cormode and Muthukrishnan 2005) of counters of four bits with conservative
// update (Estan and Varghese 2002), that are halved from time to time (TinyLFU:
// Einziger, Friedman, Manes, ACM ToS 2017). They are halved block by block, so
// that no call does it for all.
//
// The zero value must grow before its first use. All bits of a hash matter.
type sketch struct {
	words []uint64 // 16 counters each; a power of two; blocks of 8, a line of memory
	added int      // since a block was halved
	hand  int      // the word where the next block to be halved begins
}

const (
	maxCount = 15
	// sample is how much is added, per word, until all counters are halved. If
	// there is a word for each entry, 10 is usual; here there are up to three.
	sample   = 6
	lowBits  = 0x7777777777777777
	leastLen = 64 // words
)

// counter returns the i-th of the four counters of a hash, which are all in
// one block: the word and the position in it.
func (s *sketch) counter(hash uint64, i int) (word *uint64, shift uint) {
	block := int(hash>>32) & (len(s.words)/8 - 1)
	pick := int(hash>>(8*i)) & 31
	return &s.words[8*block+2*i+pick&1], uint(pick >> 1 * 4)
}

// estimate is at most maxCount, and at least what was added since the block was
// halved.
func (s *sketch) estimate(hash uint64) uint32 {
	least := uint64(maxCount)
	for i := range 4 {
		word, shift := s.counter(hash, i)
		least = min(least, *word>>shift&maxCount)
	}
	return uint32(least)
}

// add adds n to the estimate; n <= 8·sample.
func (s *sketch) add(hash uint64, n uint32) {
	count := uint64(min(s.estimate(hash)+n, maxCount))
	for i := range 4 {
		word, shift := s.counter(hash, i)
		if *word>>shift&maxCount < count {
			*word = *word&^(maxCount<<shift) | count<<shift
		}
	}
	if s.added += int(n); s.added < 8*sample {
		return
	}
	s.added -= 8 * sample
	for i := range 8 {
		s.words[s.hand+i] = s.words[s.hand+i] >> 1 & lowBits
	}
	s.hand = (s.hand + 8) & (len(s.words) - 1)
}

// grow doubles the counters; estimates stay. A block becomes two, told apart by
// the next bit of the hash.
func (s *sketch) grow() {
	if s.words == nil {
		s.words = make([]uint64, leastLen)
		return
	}
	s.words = slices.Repeat(s.words, 2)
}

// shrink halves the counters: of two blocks that become one, the greater
// counters stay.
func (s *sketch) shrink() {
	half := len(s.words) / 2
	words := make([]uint64, half)
	for i := range words {
		a, b := s.words[i], s.words[half+i]
		for shift := 0; shift < 64; shift += 4 {
			words[i] |= max(a>>shift&maxCount, b>>shift&maxCount) << shift
		}
	}
	s.words = words
	s.hand &= half - 1
}

// ghost remembers hashes that were put last. It may forget some, and seldom
// takes one for another. It must grow before its first use.
type ghost struct {
	slots []uint32 // a power of two; 12 bits of the hash, 20 of the number of the put
	puts  uint32
}

const (
	ghostBits = 20
	ghostMask = 1<<ghostBits - 1
)

func (g *ghost) slot(hash uint64) (slot *uint32, mark uint32) {
	return &g.slots[int(hash>>32)&(len(g.slots)-1)], uint32(hash) &^ ghostMask
}

func (g *ghost) put(hash uint64) {
	slot, mark := g.slot(hash)
	g.puts++
	*slot = mark | g.puts&ghostMask
}

// take reports whether hash was put in one of the last n puts, and forgets it.
func (g *ghost) take(hash uint64, n int) bool {
	slot, mark := g.slot(hash)
	n = min(n, 1<<(ghostBits-2)) // the number of a put comes again
	if *slot == 0 || *slot&^ghostMask != mark || int((g.puts-*slot)&ghostMask) >= n {
		return false
	}
	*slot = 0
	return true
}

// grow makes room for n slots; n doubles.
func (g *ghost) grow(n int) {
	if g.slots == nil {
		g.slots = make([]uint32, n)
		return
	}
	g.slots = slices.Repeat(g.slots, 2)
}

// shrink halves the slots, and forgets what was in the others.
func (g *ghost) shrink() { g.slots = slices.Clone(g.slots[:len(g.slots)/2]) }
