// Package sketch remembers hashes in little memory: how often each was added, and
// whether it was put lately.
package sketch

import "slices"

// A Sketch estimates how often a hash was added recently: a count-min sketch
// (Cormode and Muthukrishnan 2005) of counters of four bits with conservative
// update (Estan and Varghese 2002), that are halved from time to time (TinyLFU:
// Einziger, Friedman, Manes, ACM ToS 2017). They are halved block by block, so
// that no call does it for all.
//
// The zero value must grow before its first use. All bits of a hash matter.
type Sketch struct {
	words []uint64 // 16 counters each; a power of two; blocks of 8, a line of memory
	added int      // since a block was halved
	hand  int      // the word where the next block to be halved begins
}

// MaxCount is the greatest estimate.
const MaxCount = 15

// MinWords is the size of the smallest Sketch.
const MinWords = 64

const (
	// sample is how much is added, per word, until all counters are halved. If
	// there is a word for each entry, 10 is usual; here there are up to three.
	sample  = 6
	lowBits = 0x7777777777777777
)

// counter returns the i-th of the four counters of a hash, which are all in
// one block: the word and the position in it.
func (s *Sketch) counter(hash uint64, i int) (word *uint64, shift uint) {
	block := int(hash>>32) & (len(s.words)/8 - 1)
	pick := int(hash>>(8*i)) & 31
	return &s.words[8*block+2*i+pick&1], uint(pick >> 1 * 4)
}

// Words returns the size.
func (s *Sketch) Words() int { return len(s.words) }

// Estimate is at most MaxCount, and at least what was added since the block was
// halved.
func (s *Sketch) Estimate(hash uint64) uint32 {
	least := uint64(MaxCount)
	for i := range 4 {
		word, shift := s.counter(hash, i)
		least = min(least, *word>>shift&MaxCount)
	}
	return uint32(least)
}

// Add adds n to the estimate; n <= 8·sample.
func (s *Sketch) Add(hash uint64, n uint32) {
	count := uint64(min(s.Estimate(hash)+n, MaxCount))
	for i := range 4 {
		word, shift := s.counter(hash, i)
		if *word>>shift&MaxCount < count {
			*word = *word&^(MaxCount<<shift) | count<<shift
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

// Grow doubles the counters; estimates stay. A block becomes two, told apart by
// the next bit of the hash.
func (s *Sketch) Grow() {
	if s.words == nil {
		s.words = make([]uint64, MinWords)
		return
	}
	s.words = slices.Repeat(s.words, 2)
}

// Shrink halves the counters: of two blocks that become one, the greater
// counters stay.
func (s *Sketch) Shrink() {
	half := len(s.words) / 2
	words := make([]uint64, half)
	for i := range words {
		a, b := s.words[i], s.words[half+i]
		for shift := 0; shift < 64; shift += 4 {
			words[i] |= max(a>>shift&MaxCount, b>>shift&MaxCount) << shift
		}
	}
	s.words = words
	s.hand &= half - 1
}

// A Ghost remembers hashes that were put last. It may forget some, and seldom
// takes one for another. It must grow before its first use.
type Ghost struct {
	slots []uint32 // a power of two; 12 bits of the hash, 20 of the number of the put
	puts  uint32
}

const (
	ghostBits = 20
	ghostMask = 1<<ghostBits - 1
)

func (g *Ghost) slot(hash uint64) (slot *uint32, mark uint32) {
	return &g.slots[int(hash>>32)&(len(g.slots)-1)], uint32(hash) &^ ghostMask
}

// Put remembers a hash.
func (g *Ghost) Put(hash uint64) {
	slot, mark := g.slot(hash)
	g.puts++
	*slot = mark | g.puts&ghostMask
}

// Take reports whether hash was put in one of the last n puts, and forgets it.
func (g *Ghost) Take(hash uint64, n int) bool {
	slot, mark := g.slot(hash)
	n = min(n, 1<<(ghostBits-2)) // the number of a put comes again
	if *slot == 0 || *slot&^ghostMask != mark || int((g.puts-*slot)&ghostMask) >= n {
		return false
	}
	*slot = 0
	return true
}

// Grow makes room for n slots; n doubles.
func (g *Ghost) Grow(n int) {
	if g.slots == nil {
		g.slots = make([]uint32, n)
		return
	}
	g.slots = slices.Repeat(g.slots, 2)
}

// Shrink halves the slots, and forgets what was in the others.
func (g *Ghost) Shrink() { g.slots = slices.Clone(g.slots[:len(g.slots)/2]) }
