// Package match finds the patterns that match a key among thousands.
//
// A [Set] files each pattern by the text that its keys have in common: the whole
// key, its beginning, or its end. A lookup takes one map access for whole keys,
// at most one for each distinct length of beginnings and of ends, and a test of each
// pattern that it finds there.
//
// A pattern of the kind Entries is filed by the rarest of its entries. If there are such
// patterns, a lookup parses the key as a descriptor once, and takes up to two map accesses
// for each of its entries.
//
// A pattern without such a text is tested against every key, as long as its index
// is below the best match so far: the globs *a* and ?a?, and the regexes a, (?i)^a
// and ^[a-z]+$. A test takes some nanoseconds if the pattern contains a text that
// the key lacks, and otherwise up to (len(glob)+1) × (len(key)+1) steps for a glob,
// and the time of package regexp for a regex. A caller with thousands of those
// patterns should cache the result per key.
package match

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// A Kind is the syntax of a Pattern.
type Kind uint8

// The kinds. A character is a UTF-8 sequence; a byte that is part of none is a
// character.
const (
	// Exact matches the key that equals the text.
	Exact Kind = iota
	// Glob matches the whole key: * stands for any text, including / and newlines,
	// ? for one character, and a backslash quotes the next character.
	Glob
	// Regex is an RE2 expression of package regexp. It may match anywhere in the key,
	// unless it is anchored by ^ and $.
	Regex
	// Entries matches the keys of descriptors that have some entries, in any order,
	// among others. The text is the key of a descriptor with at least one entry (package
	// descriptor); its domain and values are globs.
	Entries
)

// A Pattern matches keys.
type Pattern struct {
	Kind Kind
	Text string
}

// A Set is a list of compiled patterns. It is immutable, and safe for concurrent
// use. The zero Set is empty.
type Set struct {
	matchers []matcher // by the pattern's index

	// Each pattern's index is in one of these. All lists ascend.
	whole      map[string][]int32
	begin, end affixes
	entries    map[filing][]int32
	rest       []int32
}

// New compiles patterns. The error names the first malformed pattern and wraps the cause.
func New(patterns []Pattern) (*Set, error) {
	s := &Set{matchers: make([]matcher, len(patterns)), whole: map[string][]int32{}}
	heads, tails := map[string]int{}, map[string]int{} // how many patterns share a text
	sharing := map[filing]int{}                        // how many patterns share an entry
	for i, p := range patterns {
		m, err := compile(p)
		if err != nil {
			return nil, fmt.Errorf("match: pattern %d, %q: %w", i, p.Text, err)
		}
		s.matchers[i] = m
		heads[m.head]++
		tails[m.tail]++
		for i := range m.entries {
			sharing[m.entries[i].filing()]++
		}
	}
	for i := range s.matchers {
		switch m, i := &s.matchers[i], int32(i); {
		case m.test == byEntries:
			s.fileEntries(m, i, sharing)
		case m.test == equal:
			s.whole[m.text] = append(s.whole[m.text], i)
		case m.head != "" && (m.tail == "" || heads[m.head] <= tails[m.tail]):
			s.begin.add(m.head, m.head[len(m.head)-1], i)
		case m.tail != "":
			s.end.add(m.tail, m.tail[0], i)
		default:
			s.rest = append(s.rest, i)
		}
	}
	return s, nil
}

// First returns the index of the first pattern that matches, or -1. It does not
// allocate, except for the scratch memory of package regexp and, if there are patterns of
// the kind Entries, for the entries of a descriptor.
func (s *Set) First(key string) int {
	first := int32(math.MaxInt32)
	parsed := s.parse(key)
	for patterns := range s.candidates(key, parsed) {
		for _, i := range patterns {
			if i >= first {
				break
			}
			if s.matchers[i].matches(key, parsed) {
				first = i
			}
		}
	}
	if first == math.MaxInt32 {
		return -1
	}
	return int(first)
}

// All appends the indexes of all patterns that match to into, in ascending order.
// It allocates no more than First, if into has room.
func (s *Set) All(key string, into []int) []int {
	found := into
	parsed := s.parse(key)
	for patterns := range s.candidates(key, parsed) {
		for _, i := range patterns {
			if s.matchers[i].matches(key, parsed) {
				found = append(found, int(i))
			}
		}
	}
	slices.Sort(found[len(into):])
	return found
}

// candidates returns the lists of patterns that can match a key.
func (s *Set) candidates(key string, parsed parsedKey) iter.Seq[[]int32] {
	return func(yield func([]int32) bool) {
		yield(s.whole[key])
		for _, l := range s.begin.lengths {
			if l.n > len(key) {
				break
			}
			if l.has(key[l.n-1]) {
				yield(s.begin.patterns[key[:l.n]])
			}
		}
		for _, l := range s.end.lengths {
			if l.n > len(key) {
				break
			}
			if l.has(key[len(key)-l.n]) {
				yield(s.end.patterns[key[len(key)-l.n:]])
			}
		}
		for i, e := range parsed.entries {
			yield(s.entries[filing{e, true}])
			if i == 0 || e.Key != parsed.entries[i-1].Key {
				yield(s.entries[filing{entry: descriptor.Entry{Key: e.Key}}])
			}
		}
		yield(s.rest)
	}
}

// affixes are patterns by a text that their keys begin with, or end with.
type affixes struct {
	lengths  []length // of the texts, ascending
	patterns map[string][]int32
}

// A length is the length of some texts, and a set of their inner bytes, modulo 64: the
// last bytes of beginnings, the first bytes of ends. Most are delimiters, so that most
// keys need no map access.
type length struct {
	n     int
	inner uint64
}

func (l length) has(inner byte) bool { return l.inner>>(inner%64)&1 != 0 }

func (a *affixes) add(text string, inner byte, pattern int32) {
	if a.patterns == nil {
		a.patterns = map[string][]int32{}
	}
	a.patterns[text] = append(a.patterns[text], pattern)
	at, ok := slices.BinarySearchFunc(a.lengths, len(text), func(l length, n int) int { return cmp.Compare(l.n, n) })
	if !ok {
		a.lengths = slices.Insert(a.lengths, at, length{n: len(text)})
	}
	a.lengths[at].inner |= 1 << (inner % 64)
}
