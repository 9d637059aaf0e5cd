package match

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// An Unreachable is a pattern that is never the first one that matches a key.
type Unreachable struct {
	Pattern int // its index
	// By is the index of an earlier pattern that matches all its keys; -1 if it matches no
	// key at all.
	By int
}

// Bounds of the search for patterns that are unreachable, in steps of automata.
const (
	maxSteps     = 5_000_000 // of a list of patterns
	maxPairSteps = 200_000   // of a pair of patterns
)

// FindUnreachable returns the patterns, which must be valid, that never come first, in
// ascending order. Keys are as decider.ParseKey returns them: not empty, UTF-8, without control
// characters and surrounding space. With all set, every pattern that matches counts, and only
// patterns that match no key are returned.
//
// It is sound but not complete: it compares pairs of patterns, and gives up on a pair, and at
// last on the list, after a bounded number of steps.
func FindUnreachable(patterns []Pattern, all bool) ([]Unreachable, error) {
	set, err := New(patterns)
	if err != nil {
		return nil, err
	}
	f := finder{set: set, patterns: patterns, languages: map[int]language{}, samples: map[int]string{}, left: maxSteps}
	var found []Unreachable
	var earlier []int
	for i, p := range patterns {
		if p.Kind == Regex && f.included(i, -1) {
			found = append(found, Unreachable{i, -1})
			continue
		}
		if all {
			continue
		}
		// A pattern that matches all keys of this one also matches any one of them: only those are compared.
		earlier = set.All(f.sample(i), earlier[:0])
		for _, by := range earlier {
			if by >= i {
				break
			}
			if f.covers(by, i) {
				found = append(found, Unreachable{i, by})
				break
			}
		}
	}
	return found, nil
}

// A finder compares patterns.
type finder struct {
	set       *Set
	patterns  []Pattern
	languages map[int]language // by pattern; without a program if it has none
	samples   map[int]string   // of each regex a key that it matches: included has found it
	left      int              // steps
}

// covers reports whether pattern a matches all keys that pattern b, which is another, matches.
func (f *finder) covers(a, b int) bool {
	p, q := f.patterns[a], f.patterns[b]
	switch {
	case p == q, q.Kind == Exact: // the sample of an exact pattern is all it matches
		return true
	case p.Kind == Exact:
		return false
	case p.Kind == Entries && q.Kind == Entries:
		return f.coversEntries(p.Text, q.Text)
	case p.Kind == Entries:
		return false
	}
	return f.included(b, a)
}

// coversEntries reports whether the entries of a pattern match wherever those of another do.
func (f *finder) coversEntries(p, q string) bool {
	domain, entries, _ := descriptor.Parse(p)
	other, others, _ := descriptor.Parse(q)
	if !f.coversGlob(domain, other) {
		return false
	}
	for _, e := range entries {
		found := false
		for _, o := range others {
			found = found || o.Key == e.Key && f.coversGlob(e.Value, o.Value)
		}
		if !found {
			return false
		}
	}
	return true
}

// coversGlob reports whether a glob matches all texts that another matches.
func (f *finder) coversGlob(a, b string) bool {
	if a == b || a == "*" {
		return true
	}
	if f.left <= 0 {
		return false
	}
	wide, err := compileLanguage(Pattern{Glob, a})
	if err != nil {
		return false
	}
	narrow, err := compileLanguage(Pattern{Glob, b})
	if err != nil {
		return false
	}
	steps := 0
	in, _ := search(narrow, wide, &steps)
	f.left -= steps
	return in
}

// language returns the automaton of a pattern.
func (f *finder) language(i int) (language, bool) {
	l, known := f.languages[i]
	if !known {
		l, _ = compileLanguage(f.patterns[i]) // without a program if there is an error
		f.languages[i] = l
	}
	return l, l.Prog != nil
}

// included reports whether pattern b matches all keys that pattern a matches. If b is -1, it
// matches no key.
func (f *finder) included(a, b int) bool {
	if f.left <= 0 {
		return false
	}
	narrow, ok := f.language(a)
	var wide language
	if ok && b >= 0 {
		wide, ok = f.language(b)
	}
	if !ok {
		return false
	}
	steps := 0
	in, sample := search(narrow, wide, &steps)
	f.left -= steps
	if b < 0 {
		f.samples[a] = sample
	}
	return in
}

// sample returns a key that a pattern matches, or "" if none was found.
func (f *finder) sample(i int) string {
	p := f.patterns[i]
	switch p.Kind {
	case Regex:
		return f.samples[i]
	case Entries:
		domain, entries, _ := descriptor.Parse(p.Text)
		for i := range entries {
			entries[i].Value = globSample(entries[i].Value)
		}
		return string(descriptor.Append(nil, globSample(domain), entries))
	case Glob:
		return globSample(p.Text)
	}
	return p.Text
}

// globSample returns a text that a glob matches, without surrounding space.
func globSample(glob string) string {
	var b strings.Builder
	for rest := glob; rest != ""; {
		if rest[0] == '\\' {
			rest = rest[1:]
		} else if rest[0] == '*' || rest[0] == '?' {
			b.WriteByte('x')
			rest = rest[1:]
			continue
		}
		n := width(rest)
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
	return b.String()
}

// search looks for a key of one language that is not in another, shortest first. A language
// without a program is empty. included is set if there is none. Without one, the search may also
// have ended after maxPairSteps.
func search(narrow, wide language, steps *int) (included bool, other string) {
	type node struct {
		narrow, wide state
		before       rune
		from         int
	}
	chars := alphabet(0, narrow)
	nodes := []node{{narrow: narrow.begin(), before: -1, from: -1}}
	if wide.Prog != nil {
		chars = alphabet(0, narrow, wide)
		nodes[0].wide = wide.begin()
	}
	seen := map[string]bool{}
	for at := 0; at < len(nodes); at++ {
		n := nodes[at]
		if *steps > maxPairSteps {
			return false, ""
		}
		if n.before >= 0 && !unicode.IsSpace(n.before) {
			_, ends := narrow.next(n.narrow, n.before, -1, steps)
			endsWide := false
			if ends && wide.Prog != nil {
				_, endsWide = wide.next(n.wide, n.before, -1, steps)
			}
			if ends && !endsWide {
				var key string
				for i := at; nodes[i].from >= 0; i = nodes[i].from {
					key = string(nodes[i].before) + key
				}
				return false, key
			}
		}
		for _, c := range chars {
			if n.before < 0 && unicode.IsSpace(c) {
				continue
			}
			next := node{before: c, from: at}
			if next.narrow, _ = narrow.next(n.narrow, n.before, c, steps); len(next.narrow) == 0 {
				continue
			}
			if len(n.wide) > 0 {
				next.wide, _ = wide.next(n.wide, n.before, c, steps)
			}
			if id := fmt.Sprint(next.narrow, next.wide, wordOrSpace(c)); !seen[id] {
				seen[id] = true
				nodes = append(nodes, next)
			}
		}
	}
	return true, ""
}

// wordOrSpace returns the kind of a character, as far as what follows depends on it.
func wordOrSpace(r rune) byte {
	switch {
	case unicode.IsSpace(r):
		return 's'
	case r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z':
		return 'w'
	}
	return 'o'
}
