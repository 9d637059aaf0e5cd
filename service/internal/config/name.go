package config

import (
	"strconv"
	"strings"
)

// maxName bounds the length of a rule's name.
const maxName = 64

// named reports whether a text is a valid name.
func named(text string) bool {
	return text != "" && len(text) <= maxName &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
}

// complete bounds waits, and names the rules that have no name by their patterns,
// without spaces and, where a name is taken, with a number.
func (r *Rules) complete() {
	for i := range r.Rules {
		r.Rules[i].boundWaits()
	}
	taken := map[string]bool{}
	for i := range r.Rules {
		taken[r.Rules[i].Name] = true
	}
	numbers := map[string]int{} // the last one given, by what it is put behind
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.Name != "" {
			continue
		}
		_, pattern := rule.Pattern()
		rule.Name = nameOf(pattern)
		stem := rule.Name[:min(len(rule.Name), maxName-len("#100000"))]
		for taken[rule.Name] {
			numbers[stem] = max(numbers[stem], 1) + 1
			rule.Name = stem + "#" + strconv.Itoa(numbers[stem])
		}
		taken[rule.Name] = true
	}
}

// nameOf makes a name from a pattern.
func nameOf(pattern string) string {
	var b strings.Builder
	for _, r := range pattern {
		if b.Len() == maxName {
			break
		}
		if r == ' ' || !named(string(r)) {
			r = '_'
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}
