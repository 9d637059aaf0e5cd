package match

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// A Part is a part of a key: a text or, if Text is empty, a segment of which only the kinds of its
// characters are known. A segment has at least one character, and none of the separators.
type Part struct {
	Text  string
	Kinds Kinds
}

// A Partial tells whether patterns match keys of which some segments are not known. It is not safe for concurrent
// use.
type Partial struct {
	separators string
	words      map[string]bool
	sure       *Set // of the patterns that ask for whole segments alone; the others match no key there
	patterns   []partialPattern
	entryTexts bool // see NewPartialEntries
}

// A partialPattern is a pattern that asks for a part of a segment: whole, or domain and entries.
type partialPattern struct {
	index   int
	whole   *automaton
	domain  *automaton
	entries []partialEntry
}

// A partialEntry is an entry of a pattern of the kind Entries.
type partialEntry struct {
	key   string
	value *automaton
}

// NewPartial compiles patterns for keys whose segments are between separators, characters of ASCII. A segment that equals one
// of Words must not be unknown.
func NewPartial(patterns []Pattern, separators string) (*Partial, error) {
	p := &Partial{separators: separators, words: map[string]bool{}}
	sure := slices.Clone(patterns)
	for i, pattern := range patterns {
		c, err := p.compile(pattern)
		if err != nil {
			return nil, fmt.Errorf("match: pattern %d, %q: %w", i, pattern.Text, err)
		}
		if c != nil {
			c.index = i
			p.patterns, sure[i] = append(p.patterns, *c), Pattern{Exact, ""}
		}
	}
	var err error
	p.sure, err = New(sure)
	return p, err
}

// NewPartialEntries compiles patterns of a descriptor.Tree with some domains: a * stands for any text in the key of an entry, _ and
// its value. All patterns count for each entry of a key.
func NewPartialEntries(domains, texts []string, separators string) (*Partial, error) {
	p := &Partial{separators: separators, words: map[string]bool{}, sure: new(Set), entryTexts: true}
	for _, domain := range domains {
		p.learnEscaped(domain)
	}
	for i, text := range texts {
		for at := range text { // the key may end at each _
			if text[at] == '_' {
				p.learnEscaped(text[:at])
				p.learnEscaped(text[at+1:])
			}
		}
		p.learnEscaped(text)
		auto, err := p.automaton(strings.NewReplacer(`\`, `\\`, `?`, `\?`).Replace(text))
		if err != nil {
			return nil, fmt.Errorf("match: pattern %d, %q: %w", i, text, err)
		}
		if strings.Contains(text, "*") {
			p.patterns = append(p.patterns, partialPattern{index: i, whole: auto})
		}
	}
	return p, nil
}

// Words returns texts that segments are compared with.
func (p *Partial) Words() []string { return slices.Sorted(maps.Keys(p.words)) }

// Doubt returns the index of the first pattern of which it is not known whether it matches a key, or -1. Unless all is set, patterns
// after the first one that matches do not count.
func (p *Partial) Doubt(parts []Part, all bool) int {
	if len(p.patterns) == 0 || !slices.ContainsFunc(parts, func(part Part) bool { return part.Text == "" }) {
		return -1
	}
	last := math.MaxInt
	if !all {
		if i := p.sure.First(fill(parts)); i >= 0 {
			last = i
		}
	}
	domain, entries, isDescriptor := parseParts(parts)
	for i := range p.patterns {
		c := &p.patterns[i]
		found := no
		switch {
		case c.index > last:
			return -1
		case p.entryTexts:
			found = c.matchTexts(entries)
		case c.whole != nil:
			found = c.whole.match(parts)
		case isDescriptor:
			found = c.matchEntries(domain, entries)
		}
		if found == maybe {
			return c.index
		}
		if found == yes && !all {
			return -1
		}
	}
	return -1
}

// fill returns a key with some text in place of the unknown segments.
func fill(parts []Part) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(cmp.Or(part.Text, "\ufffd"))
	}
	return b.String()
}

// An answer of a pattern.
type answer uint8

const (
	no answer = iota
	maybe
	yes
)

// learn adds the segments of a text to the words, and returns them.
func (p *Partial) learn(text string) (words []string) {
	for part, segment := range Split(text, p.separators) {
		if segment {
			p.words[part] = true
			words = append(words, part)
		}
	}
	return words
}

// learnEscaped adds the segments of a text as a descriptor has it.
func (p *Partial) learnEscaped(text string) { p.learn(string(descriptor.Append(nil, text, nil))) }

// compile compiles a pattern; nil if all that it asks for is whole segments.
func (p *Partial) compile(pattern Pattern) (*partialPattern, error) {
	switch pattern.Kind {
	case Glob:
		auto, err := p.automaton(pattern.Text)
		if err != nil {
			return nil, err
		}
		if texts, stars, _ := globTexts(pattern.Text); stars && p.wholeSegments(texts) {
			return nil, nil
		}
		return &partialPattern{whole: auto}, nil
	case Regex:
		tree, err := syntax.Parse(pattern.Text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		var words []string
		for _, text := range regexTexts(tree) {
			words = append(words, p.learn(text)...)
		}
		l, err := compileLanguage(pattern)
		if err != nil {
			return nil, err
		}
		return &partialPattern{whole: newAutomaton(l, words, p.separators)}, nil
	case Entries:
		return p.compileEntries(pattern.Text)
	}
	p.learn(pattern.Text)
	return nil, nil
}

// automaton returns the automaton of a glob.
func (p *Partial) automaton(glob string) (*automaton, error) {
	var words []string
	texts, _, err := globTexts(glob)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		words = append(words, p.learn(text)...)
	}
	l, err := compileLanguage(Pattern{Glob, glob})
	if err != nil {
		return nil, err
	}
	return newAutomaton(l, words, p.separators), nil
}

func (p *Partial) compileEntries(text string) (*partialPattern, error) {
	p.learn(text)
	domain, entries, _ := descriptor.Parse(text)
	c := new(partialPattern)
	var err error
	if c.domain, err = p.automaton(domain); err != nil {
		return nil, err
	}
	for _, e := range entries {
		value, err := p.automaton(e.Value)
		if err != nil {
			return nil, err
		}
		c.entries = append(c.entries, partialEntry{e.Key, value})
	}
	return c, nil
}

// wholeSegments reports whether the texts between stars begin and end with separators where a star is beside them.
func (p *Partial) wholeSegments(texts []string) bool {
	for i, text := range texts {
		if text == "" {
			continue
		}
		if i > 0 && strings.IndexByte(p.separators, text[0]) < 0 || i < len(texts)-1 && strings.IndexByte(p.separators, text[len(text)-1]) < 0 {
			return false
		}
	}
	return true
}

// A partialValue is an entry of a descriptor.
type partialValue struct{ key, value []Part }

// parseParts returns the descriptor of a key.
func parseParts(parts []Part) (domain []Part, entries []partialValue, ok bool) {
	to, inValue := &domain, true // a = belongs to the domain
	add := func(text string) {
		if text != "" {
			*to = append(*to, Part{Text: text})
		}
	}
	for _, part := range parts {
		if part.Text == "" {
			*to = append(*to, part)
			continue
		}
		rest := part.Text
		for {
			cut := "|"
			if !inValue {
				cut = "="
			}
			head, tail, found := strings.Cut(rest, cut)
			text, ok := descriptor.Unescape(head)
			if !ok {
				return nil, nil, false
			}
			if !inValue && strings.Contains(head, "|") {
				return nil, nil, false // an entry without a value
			}
			if add(text); !found {
				break
			}
			if rest = tail; inValue {
				entries = append(entries, partialValue{})
				to, inValue = &entries[len(entries)-1].key, false
			} else {
				to, inValue = &entries[len(entries)-1].value, true
			}
		}
	}
	return domain, entries, inValue && len(entries) > 0
}

func known(parts []Part) (text string, ok bool) {
	for _, part := range parts {
		if part.Text == "" {
			return "", false
		}
		text += part.Text
	}
	return text, true
}

func (c *partialPattern) matchEntries(domain []Part, entries []partialValue) answer {
	all := c.domain.match(domain)
	for _, e := range c.entries {
		any := no
		for _, is := range entries {
			if key, ok := known(is.key); ok && key == e.key {
				any = max(any, e.value.match(is.value))
			}
		}
		all = min(all, any)
	}
	return all
}

// matchTexts returns maybe if that is the answer for an entry.
func (c *partialPattern) matchTexts(entries []partialValue) answer {
	for _, e := range entries {
		if c.whole.match(slices.Concat(e.key, []Part{{Text: "_"}}, e.value)) == maybe {
			return maybe
		}
	}
	return no
}
