// Package match finds which of many patterns match a key.
package match

import (
	"fmt"
	"regexp"
	"strings"
)

// A Kind is how a Pattern is written.
type Kind uint8

const (
	Exact Kind = iota // the key itself
	Glob              // * is any text, ? any one character, \ takes the next one as it is
	Regex             // RE2; anywhere in the key, unless it says ^ and $
)

// A Pattern matches keys.
type Pattern struct {
	Kind Kind
	Text string
}

// A Set is many patterns, by their place in the list. It does not change.
type Set struct {
	res []*regexp.Regexp
}

// New returns the Set of the patterns. The error names the first that is wrong.
func New(patterns []Pattern) (*Set, error) {
	s := new(Set)
	for _, p := range patterns {
		text := p.Text
		switch p.Kind {
		case Exact:
			text = "^" + regexp.QuoteMeta(text) + "$"
		case Glob:
			text = "(?s)^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(text)) + "$"
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", p.Text, err)
		}
		s.res = append(s.res, re)
	}
	return s, nil
}

// First returns the first pattern that matches; -1 if none does.
func (s *Set) First(key string) int {
	for i, re := range s.res {
		if re.MatchString(key) {
			return i
		}
	}
	return -1
}

// All appends all patterns that match to into, in order.
func (s *Set) All(key string, into []int) []int {
	for i, re := range s.res {
		if re.MatchString(key) {
			into = append(into, i)
		}
	}
	return into
}
