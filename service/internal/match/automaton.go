package match

import (
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPartialSteps bounds what an automaton does for all keys together. Beyond that, it answers maybe.
const maxPartialSteps = 5_000_000

// An automaton is the language of a pattern, with the places where it can be after a part of a key.
type automaton struct {
	language
	words    map[string]bool // that no unknown segment equals
	prefixes map[string]bool // of words
	chars    [5][]rune       // of segments, by kind
	ids      map[string]int
	places   []*place
	after    map[placeStep][]int // of an unknown segment; the step is its kinds
	left     int                 // steps
	at, to   []int               // of match
}

// A place is the state of an automaton, with a character that stands for the one before.
type place struct {
	state
	before rune
	ascii  [utf8.RuneSelf]int32 // 1 + the place after a character; 0 if it has not been found
	wide   map[rune]int
	end    answer // whether the key may end here; maybe if it has not been found
}

type placeStep struct {
	place int
	step  int32
}

func newAutomaton(l language, words []string, separators string) *automaton {
	a := &automaton{
		language: l, words: map[string]bool{}, prefixes: map[string]bool{"": true}, left: maxPartialSteps,
		ids: map[string]int{}, after: map[placeStep][]int{},
	}
	for _, word := range words {
		a.words[word] = true
		for i := range len(word) {
			a.prefixes[word[:i+1]] = true
		}
	}
	var all []rune
	for r := rune(' '); r <= '~'; r++ {
		all = append(all, r)
	}
	const firstWide = 0xa0 // that is no control character
	for _, r := range append(all, alphabet(firstWide, l)...) {
		if !strings.ContainsRune(separators, r) && isKeyCharacter(r) {
			for kind, k := 0, KindsOf(string(r)); kind < len(a.chars); kind++ {
				if k == 1<<kind {
					a.chars[kind] = append(a.chars[kind], r)
				}
			}
		}
	}
	return a
}

// id returns the number of a place.
func (a *automaton) id(s state, before rune) int {
	name := fmt.Sprint(s, before)
	id, ok := a.ids[name]
	if !ok {
		id = len(a.places)
		a.ids[name] = id
		a.places = append(a.places, &place{state: s, before: before, wide: map[rune]int{}, end: maybe})
	}
	return id
}

// read returns the place after a character.
func (a *automaton) read(from int, r rune) int {
	p := a.places[from]
	if r < utf8.RuneSelf {
		if to := p.ascii[r]; to > 0 {
			return int(to - 1)
		}
	} else if to, ok := p.wide[r]; ok {
		return to
	}
	steps := 0
	after, _ := a.language.next(p.state, p.before, r, &steps)
	a.left -= steps
	to := a.id(after, word(r))
	if r < utf8.RuneSelf {
		p.ascii[r] = int32(to + 1)
	} else {
		p.wide[r] = to
	}
	return to
}

// word returns a character that is part of a word if r is.
func word(r rune) rune {
	if syntax.IsWordChar(r) {
		return 'a'
	}
	return ' '
}

// pass returns the places after an unknown segment.
func (a *automaton) pass(from int, kinds Kinds) []int {
	key := placeStep{from, int32(kinds)}
	if to, ok := a.after[key]; ok {
		return to
	}
	type at struct {
		place  int
		prefix string // of words, that the segment has begun with; "\x00" if no word begins like it
	}
	seen, found := map[at]bool{}, map[int]bool{}
	todo := []at{{from, ""}}
	for len(todo) > 0 && a.left > 0 {
		is := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for kind, chars := range a.chars {
			if kinds>>kind&1 == 0 {
				continue
			}
			for _, r := range chars {
				a.left--
				next := at{a.read(is.place, r), "\x00"}
				if prefix := is.prefix + string(r); is.prefix != "\x00" && a.prefixes[prefix] {
					next.prefix = prefix
					if r >= utf8.RuneSelf { // it stands for others, too
						found[next.place] = true
						if off := (at{next.place, "\x00"}); !seen[off] {
							seen[off] = true
							todo = append(todo, off)
						}
					}
				}
				if next.prefix == "\x00" || !a.words[next.prefix] {
					found[next.place] = true
				}
				if !seen[next] {
					seen[next] = true
					todo = append(todo, next)
				}
			}
		}
	}
	to := slices.Sorted(maps.Keys(found))
	a.after[key] = to
	return to
}

// match tells whether the pattern matches.
func (a *automaton) match(parts []Part) answer {
	a.at = append(a.at[:0], a.id(a.begin(), -1))
	for _, part := range parts {
		a.to = a.to[:0]
		for _, from := range a.at {
			if part.Text == "" {
				for _, to := range a.pass(from, part.Kinds) {
					a.add(to)
				}
				continue
			}
			for _, r := range part.Text {
				from = a.read(from, r)
			}
			a.add(from)
		}
		if a.left <= 0 {
			return maybe
		}
		a.at, a.to = a.to, a.at
	}
	matches := 0
	for _, from := range a.at {
		p := a.places[from]
		if p.end == maybe {
			p.end = no
			if _, ends := a.language.next(p.state, p.before, -1, new(int)); ends {
				p.end = yes
			}
		}
		if p.end == yes {
			matches++
		}
	}
	switch matches {
	case 0:
		return no
	case len(a.at):
		return yes
	}
	return maybe
}

// add adds a place to those of the next part.
func (a *automaton) add(to int) {
	if !slices.Contains(a.to, to) {
		a.to = append(a.to, to)
	}
}
