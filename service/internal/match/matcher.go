package match

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// A matcher is a compiled pattern.
type matcher struct {
	test test
	// text is the operand of a comparison. If test is byGlob or byRegex, it is a text
	// that every matching key contains.
	text       string
	head, tail string         // every matching key begins with head and ends with tail
	glob       string         // if test is byGlob
	re         *regexp.Regexp // if test is byRegex
	domain     *matcher       // if test is byEntries
	entries    []entryMatcher // if test is byEntries
}

// A test is how a matcher decides. The first four are comparisons with one text.
type test uint8

const (
	equal test = iota
	hasPrefix
	hasSuffix
	contains
	byGlob
	byRegex
	byEntries
)

// matches is match for patterns of every kind.
func (m *matcher) matches(key string, parsed parsedKey) bool {
	if m.test == byEntries {
		return m.matchEntries(parsed)
	}
	return m.match(key)
}

// match reports whether a pattern matches a text; test is not byEntries.
func (m *matcher) match(key string) bool {
	switch m.test {
	case equal:
		return key == m.text
	case hasPrefix:
		return strings.HasPrefix(key, m.text)
	case hasSuffix:
		return strings.HasSuffix(key, m.text)
	case contains:
		return strings.Contains(key, m.text)
	case byGlob:
		if !strings.Contains(key, m.text) {
			return false
		}
		matched, _ := globbed(m.glob, key)
		return matched
	}
	return strings.Contains(key, m.text) && m.re.MatchString(key)
}

func compile(p Pattern) (matcher, error) {
	switch p.Kind {
	case Exact:
		return matcher{test: equal, text: p.Text}, nil
	case Glob:
		return compileGlob(p.Text)
	case Regex:
		return compileRegex(p.Text)
	case Entries:
		return compileEntries(p.Text)
	}
	return matcher{}, fmt.Errorf("unknown kind %d", p.Kind)
}

func compileGlob(glob string) (matcher, error) {
	texts, stars, err := globTexts(glob)
	if err != nil {
		return matcher{}, err
	}
	head, tail := texts[0], texts[len(texts)-1]
	m := matcher{test: byGlob, text: longest(texts), head: head, tail: tail, glob: glob}
	// A byte that is not UTF-8 never matches a part of a character.
	if plain := stars && strings.Join(texts, "") == m.text && utf8.ValidString(glob); plain {
		m.test = comparison(len(texts) == 1 || head != "", len(texts) == 1 || tail != "")
	}
	return m, nil
}

// globTexts returns the texts between the wildcards of a glob, and reports whether these are all stars.
func globTexts(glob string) (texts []string, stars bool, err error) {
	texts, stars = []string{""}, true
	for rest := glob; rest != ""; {
		switch rest[0] {
		case '*', '?':
			stars = stars && rest[0] == '*'
			texts, rest = append(texts, ""), rest[1:]
			continue
		case '\\':
			if rest = rest[1:]; rest == "" {
				return nil, false, errors.New("ends with a lone backslash")
			}
		}
		n := width(rest)
		texts[len(texts)-1] += rest[:n]
		rest = rest[n:]
	}
	return texts, stars, nil
}

func compileRegex(expr string) (matcher, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return matcher{}, err
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return matcher{}, err
	}
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	m := matcher{test: byRegex, re: re}
	begun := parts[0].Op == syntax.OpBeginText
	if begun {
		parts = parts[1:]
	}
	ended := len(parts) > 0 && parts[len(parts)-1].Op == syntax.OpEndText
	if ended {
		parts = parts[:len(parts)-1]
	}
	texts := make([]string, len(parts))
	plain := true
	for i, part := range parts {
		var ok bool
		texts[i], ok = literal(part)
		plain = plain && ok
	}
	m.text = longest(texts)
	if begun && len(texts) > 0 {
		m.head = texts[0]
	}
	if ended && len(texts) > 0 {
		m.tail = texts[len(texts)-1]
	}
	if plain && len(texts) <= 1 {
		m.test = comparison(begun, ended)
	}
	return m, nil
}

// literal returns the text that a part of a regex stands for, if it is just one.
func literal(re *syntax.Regexp) (text string, ok bool) {
	if re.Op == syntax.OpEmptyMatch {
		return "", true
	}
	if re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 {
		return "", false
	}
	for _, r := range re.Rune {
		if r == utf8.RuneError || !utf8.ValidRune(r) { // matches any byte that is not UTF-8, or nothing
			return "", false
		}
	}
	return string(re.Rune), true
}

func comparison(begun, ended bool) test {
	switch {
	case begun && ended:
		return equal
	case begun:
		return hasPrefix
	case ended:
		return hasSuffix
	}
	return contains
}

func longest(texts []string) string {
	return slices.MaxFunc(append(texts, ""), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}
