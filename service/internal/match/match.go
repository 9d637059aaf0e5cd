// Package match finds which of many patterns match a key, without trying each.
//
// # How
//
// Every pattern is filed under one clue, which any key that it matches has: the
// whole key, what the key begins with, what it ends with, or six bytes in a row
// (fewer, if the text has no more) somewhere in it. Of the clues that a pattern
// has, it is the one that the fewest patterns share. A look-up finds the clues
// of the key, and tries the patterns that are filed there.
//
// # Cost
//
// A look-up takes a hash of the key; hashes of a few of its beginnings and of
// its ends, one for each doubling of how many lengths the clues have; and a pass
// over its bytes, and one more for each length of texts under six bytes. Each is
// left out where there is no such clue, or no lower pattern with one. To that
// comes the trying. A pattern that says no more than where one text is, such as
// the globs a*, *a and *a*, or the regexes ^a, a$ and a.*, takes a comparison;
// another glob at most (len(glob)+1) × (len(key)+1) steps; another regex what
// package regexp takes: half a microsecond, or several if its program is not in
// the processor's cache.
//
// What makes look-ups slow is patterns that share all their clues, or have
// none: these are tried one by one, while they are lower than the best so far.
// Short texts in the middle are shared by many, and so are the parts of texts that
// are made of the same few words. The globs of ? and * alone have
// no clue, and neither have regexes that no text is sure to be in, such as
// ^[a-z]+$, get|post and (?i)a. Whoever has thousands of those, and looks the
// same keys up again, does well to keep what was found.
//
// A Set holds the texts and some hundreds of bytes for each pattern, and what
// package regexp makes of regexes, which is kilobytes. Look-ups add nothing to
// it.
package match

import (
	"fmt"
	"math"
	"slices"
)

// A Kind is how a Pattern is written.
type Kind uint8

// The kinds. A character is one of UTF-8; a byte that is part of none is a
// character by itself.
const (
	// Exact is the key itself.
	Exact Kind = iota
	// Glob is the whole key: * is any text, / and newlines included; ? is any one
	// character; a backslash takes the next character as it is.
	Glob
	// Regex is an RE2, as package regexp has them, that matches somewhere in the
	// key: anywhere, unless it says ^ and $.
	Regex
)

// A Pattern matches keys.
type Pattern struct {
	Kind Kind
	Text string
}

// An Error is a pattern that makes no sense.
type Error struct {
	Index int    // its place in the list
	Text  string // the pattern's
	Err   error  // what is wrong with it
}

func (e *Error) Error() string {
	return fmt.Sprintf("match: pattern %d, %q: %v", e.Index, e.Text, e.Err)
}

// Unwrap returns what is wrong with the pattern.
func (e *Error) Unwrap() error { return e.Err }

// A Set is many patterns, by their place in the list. It does not change, and
// is safe for concurrent use. The zero Set is empty.
type Set struct {
	trials []trial // of the patterns, by index

	// Where the patterns are filed, each in one list. Lists ascend.
	whole  map[string][]int32
	begin  side
	end    side
	inside grams
	rest   []int32 // without a clue
}

// New returns the Set of the patterns. The error is an *Error, about the first
// that makes no sense.
func New(patterns []Pattern) (*Set, error) {
	s := &Set{trials: make([]trial, len(patterns))}
	clues := make([][]clue, len(patterns))
	shared := map[clue]int{}
	for i, p := range patterns {
		f, err := read(p)
		if err != nil {
			return nil, &Error{i, p.Text, err}
		}
		s.trials[i], clues[i] = f.trial(p.Text), f.clues()
		for _, c := range clues[i] {
			shared[c]++
		}
	}
	var files [inside + 1]map[string][]int32
	for place := range files {
		files[place] = map[string][]int32{}
	}
	for i, cs := range clues {
		c := rarest(cs, shared)
		files[c.place][c.text] = append(files[c.place][c.text], int32(i))
	}
	s.rest = files[nowhere][""]
	s.whole = files[whole]
	s.begin = newSide(files[begin], false, s.trials)
	s.end = newSide(files[end], true, s.trials)
	s.inside = newGrams(files[inside])
	return s, nil
}

// First returns the first pattern that matches; -1 if none does. It allocates
// nothing, but what package regexp does now and then.
func (s *Set) First(key string) int {
	l := lookup{key: key, below: math.MaxInt32}
	s.look(&l)
	if l.below == math.MaxInt32 {
		return -1
	}
	return int(l.below)
}

// All appends all patterns that match to into, in order. It allocates as First
// does, if into has room.
func (s *Set) All(key string, into []int) []int {
	l := lookup{key: key, below: math.MaxInt32, all: true, found: into}
	s.look(&l)
	slices.Sort(l.found[len(into):])
	return l.found
}

// A lookup is what is asked for, and what is found so far.
type lookup struct {
	key   string
	below int32 // only lower patterns count: for First, below the best so far
	all   bool
	found []int // if all
}

// look tries the patterns that a key has the clue of, each once; the dearest
// way to find some is the last.
func (s *Set) look(l *lookup) {
	if len(s.whole) > 0 {
		s.try(l, s.whole[l.key])
	}
	if s.begin.least < l.below {
		s.lookFrom(l, s.begin.longest(l.key))
	}
	if s.end.least < l.below {
		s.lookFrom(l, s.end.longest(l.key))
	}
	if s.inside.least < l.below {
		s.inside.each(l.key, func(patterns []int32) { s.try(l, patterns) })
	}
	s.try(l, s.rest)
}

// lookFrom tries the patterns of a text of the key, and of all shorter ones.
func (s *Set) lookFrom(l *lookup, n *node) {
	if n != nil && !l.all {
		l.below = min(l.below, n.sure)
	}
	for ; n != nil && n.least < l.below; n = n.shorter {
		s.try(l, n.patterns)
	}
}

func (s *Set) try(l *lookup, patterns []int32) {
	for _, i := range patterns {
		switch {
		case i >= l.below:
			return
		case !s.trials[i].match(l.key):
		case !l.all:
			l.below = i
			return
		default:
			l.found = append(l.found, int(i))
		}
	}
}
