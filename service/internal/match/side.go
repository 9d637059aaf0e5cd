package match

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A side finds the texts that a key begins with, or those that it ends with.
//
// It looks for the longest by halving the list of lengths. For this to tell
// which half it is in, every text leaves marks: its own beginnings, of the
// lengths that the search asks for on its way to the text. A mark leads to the
// longest text that it begins with, which is the answer if the search finds
// nothing longer. (Waldvogel, Varghese, Turner, Plattner: Scalable High Speed IP
// Routing Lookups, SIGCOMM 1997.)
type side struct {
	end     bool             // the ends of keys; what is said of beginnings holds for these
	lengths []int            // of texts, ascending
	marks   map[string]*node // of texts, and on the way to them
	least   int32            // the lowest pattern
}

// A node is a text.
type node struct {
	patterns []int32 // filed under it
	shorter  *node   // the next longest text that it begins with

	// Of it and all that are shorter.
	least int32 // the lowest pattern
	sure  int32 // the lowest pattern that says no more than where its text is
}

func newSide(texts map[string][]int32, end bool, trials []trial) side {
	s := side{end: end, marks: make(map[string]*node, len(texts)), least: math.MaxInt32}
	for text, patterns := range texts {
		s.lengths = append(s.lengths, len(text))
		s.least = min(s.least, patterns[0])
	}
	slices.Sort(s.lengths)
	s.lengths = slices.Compact(s.lengths)
	// By length, because a text or a mark may lead to any shorter text.
	byLength := slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for _, text := range byLength {
		s.marks[text] = newNode(texts[text], s.longest(text), trials)
		s.mark(text)
	}
	return s
}

func newNode(patterns []int32, shorter *node, trials []trial) *node {
	n := &node{patterns: patterns, shorter: shorter, least: patterns[0], sure: math.MaxInt32}
	for _, i := range patterns {
		if how := trials[i].how; how == hasPrefix || how == hasSuffix {
			n.sure = i
			break
		}
	}
	if shorter != nil {
		n.least, n.sure = min(n.least, shorter.least), min(n.sure, shorter.sure)
	}
	return n
}

// mark leaves marks on the way to a text.
func (s *side) mark(text string) {
	lo, hi := 0, len(s.lengths)
	for {
		mid := (lo + hi) / 2
		n := s.lengths[mid]
		switch {
		case n == len(text):
			return
		case n > len(text):
			hi = mid
			continue
		}
		lo = mid + 1
		mark := s.cut(text, n)
		if _, ok := s.marks[mark]; !ok {
			s.marks[mark] = s.longest(mark)
		}
	}
}

// longest returns the longest text that a key begins with; nil if there is
// none.
func (s *side) longest(key string) *node {
	var found *node
	lo, hi := 0, len(s.lengths)
	for lo < hi {
		mid := (lo + hi) / 2
		if n := s.lengths[mid]; n <= len(key) {
			if node, ok := s.marks[s.cut(key, n)]; ok {
				found, lo = node, mid+1
				continue
			}
		}
		hi = mid
	}
	return found
}

// cut returns the first n bytes of a text.
func (s *side) cut(text string, n int) string {
	if s.end {
		return text[len(text)-n:]
	}
	return text[:n]
}
