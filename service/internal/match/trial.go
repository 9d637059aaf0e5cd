package match

import (
	"regexp"
	"strings"
)

// A trial tells whether a key matches a pattern.
type trial struct {
	how  how
	text string         // all there is to say, or else a part of every key that matches
	glob string         // if byGlob
	re   *regexp.Regexp // if byRegex
}

type how uint8

const (
	equal how = iota
	hasPrefix
	hasSuffix
	contains
	byGlob
	byRegex
)

// trial returns the trial of a pattern of this form.
func (f *form) trial(pattern string) trial {
	t := trial{text: f.text()}
	switch {
	case f.plain && f.begun && f.ended:
		t.how = equal
	case f.plain && f.begun:
		t.how = hasPrefix
	case f.plain && f.ended:
		t.how = hasSuffix
	case f.plain:
		t.how = contains
	case f.expression != nil:
		t.how, t.re = byRegex, f.expression
	default:
		t.how, t.glob = byGlob, pattern
	}
	return t
}

func (t *trial) match(key string) bool {
	switch t.how {
	case equal:
		return key == t.text
	case hasPrefix:
		return strings.HasPrefix(key, t.text)
	case hasSuffix:
		return strings.HasSuffix(key, t.text)
	case contains:
		return strings.Contains(key, t.text)
	case byGlob:
		return strings.Contains(key, t.text) && globbed(t.glob, key)
	}
	return strings.Contains(key, t.text) && t.re.MatchString(key)
}
