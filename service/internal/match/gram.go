package match

import (
	"math"
	"math/bits"
	"slices"
	"strings"
)

// gramWidth is how many bytes of a text its patterns may be filed under, at most
// 7. Fewer are shared by more patterns. A text that has fewer is a gram by
// itself, and each width that there is takes a pass over the key.
const gramWidth = 6

// grams finds which of many short texts are in a key.
type grams struct {
	widths []int // of the grams, 1 to gramWidth
	at     map[uint64][]int32
	filter []uint64 // a bit for each gram, at its hash; so few are set that most bytes of a key end here
	shift  int      // from a hash to a bit
	least  int32    // the lowest pattern
}

func newGrams(texts map[string][]int32) grams {
	size := bits.Len(uint(16*len(texts)) | 63) // of the filter, as a power of two
	g := grams{
		at:     make(map[uint64][]int32, len(texts)),
		filter: make([]uint64, 1<<size/64),
		shift:  64 - size,
		least:  math.MaxInt32,
	}
	for text, patterns := range texts {
		var gram uint64
		for i := range len(text) {
			gram = gram<<8 | uint64(text[i])
		}
		gram |= 1 << (8 * len(text)) // tells a from \x00a
		g.at[gram] = patterns
		bit := g.bit(gram)
		g.filter[bit/64] |= 1 << (bit % 64)
		g.least = min(g.least, patterns[0])
		if !slices.Contains(g.widths, len(text)) {
			g.widths = append(g.widths, len(text))
		}
	}
	return g
}

// bit returns the place of a gram in the filter.
func (g *grams) bit(gram uint64) uint64 {
	return gram * 0x9e3779b97f4a7c15 >> g.shift // 2⁶⁴ by the golden ratio: Knuth, volume 3, 6.4
}

// each yields the patterns of each gram that is in the key, once.
func (g *grams) each(key string, yield func([]int32)) {
	for _, width := range g.widths {
		top := uint64(1) << (8 * width)
		var last uint64 // width bytes
		for i := range len(key) {
			last = (last<<8 | uint64(key[i])) & (top - 1)
			bit := g.bit(last | top)
			if g.filter[bit/64]&(1<<(bit%64)) == 0 || i+1 < width {
				continue
			}
			patterns := g.at[last|top]
			if patterns == nil || strings.Contains(key[:i], key[i+1-width:i+1]) { // it was here before
				continue
			}
			yield(patterns)
		}
	}
}
