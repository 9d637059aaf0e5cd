package match

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// An entryMatcher matches an entry of a descriptor.
type entryMatcher struct {
	key   string
	value matcher // a glob
}

// A filing identifies the patterns that are filed by an entry: one with a value or, if
// exact is false, one with a key and any value.
type filing struct {
	entry descriptor.Entry
	exact bool
}

func (e *entryMatcher) filing() filing {
	if e.value.test == equal {
		return filing{descriptor.Entry{Key: e.key, Value: e.value.text}, true}
	}
	return filing{entry: descriptor.Entry{Key: e.key}}
}

// A parsedKey is a key as a descriptor. It has no entries if the key is no descriptor.
type parsedKey struct {
	domain  string
	entries []descriptor.Entry // sorted, each once
}

// parse parses a key, if a pattern needs that.
func (s *Set) parse(key string) (p parsedKey) {
	if s.entries == nil || !strings.Contains(key, "|") {
		return p
	}
	domain, entries, ok := descriptor.Parse(key)
	if !ok {
		return p
	}
	slices.SortFunc(entries, func(a, b descriptor.Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	return parsedKey{domain, slices.Compact(entries)}
}

// fileEntries files a pattern by the entry that the fewest patterns share.
func (s *Set) fileEntries(m *matcher, pattern int32, sharing map[filing]int) {
	rarest := m.entries[0].filing()
	for i := range m.entries {
		if f := m.entries[i].filing(); sharing[f] < sharing[rarest] {
			rarest = f
		}
	}
	if s.entries == nil {
		s.entries = map[filing][]int32{}
	}
	s.entries[rarest] = append(s.entries[rarest], pattern)
}

func (m *matcher) matchEntries(p parsedKey) bool {
	if !m.domain.match(p.domain) {
		return false
	}
	for i := range m.entries {
		if !m.entries[i].match(p.entries) {
			return false
		}
	}
	return true
}

// match reports whether one of the entries, which are sorted, matches.
func (e *entryMatcher) match(entries []descriptor.Entry) bool {
	first, _ := slices.BinarySearchFunc(entries, e.key, func(entry descriptor.Entry, key string) int { return cmp.Compare(entry.Key, key) })
	for _, entry := range entries[first:] {
		if entry.Key != e.key {
			return false
		}
		if e.value.match(entry.Value) {
			return true
		}
	}
	return false
}

func compileEntries(text string) (matcher, error) {
	domain, entries, ok := descriptor.Parse(text)
	if !ok || len(entries) == 0 {
		return matcher{}, errors.New("is not the key of a descriptor with entries")
	}
	glob, err := compileGlob(domain)
	if err != nil {
		return matcher{}, fmt.Errorf("domain %q: %w", domain, err)
	}
	m := matcher{test: byEntries, domain: &glob}
	for _, entry := range entries {
		value, err := compileGlob(entry.Value)
		if err != nil {
			return matcher{}, fmt.Errorf("entry %q: %w", entry.Key, err)
		}
		m.entries = append(m.entries, entryMatcher{entry.Key, value})
	}
	return m, nil
}
