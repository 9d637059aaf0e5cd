package descriptor

import (
	"maps"
	"slices"
	"strings"
)

// A Tree holds limits by the entries of descriptors, in levels. It finds a limit as
// envoyproxy/ratelimit does: level by level, the entry that equals key and value, or else
// the first pattern in the order of Add that the entry matches, or else the key alone. There
// is no way back: if the level that was found has no next level for the next entry, there is
// no limit. An entry is compared as key_value, in one text.
//
// The zero Tree is empty. It must not change while Find is called.
type Tree struct {
	domains map[string]*node
}

// None is the limit of a descriptor that has none.
const None = -1

type node struct {
	limit    int
	next     map[string]*node
	patterns []pattern // of next
}

// A pattern leads to the level of all texts that match it.
type pattern struct {
	first  string
	middle []string
	last   string
	next   *node
}

// matches reports whether a text has all parts of the pattern, one behind the other.
func (p *pattern) matches(text string) bool {
	text, ok := strings.CutPrefix(text, p.first)
	for _, part := range p.middle {
		if ok {
			_, text, ok = strings.Cut(text, part)
		}
	}
	return ok && strings.HasSuffix(text, p.last)
}

func newNode() *node { return &node{limit: None, next: map[string]*node{}} }

// A Level is where the levels below an entry are added. A domain is one.
type Level struct{ node *node }

// Domain adds a domain; fresh is false if the Tree has it already.
func (t *Tree) Domain(name string) (l Level, fresh bool) {
	n := t.domains[name]
	if fresh = n == nil; fresh {
		if t.domains == nil {
			t.domains = map[string]*node{}
		}
		n = newNode()
		t.domains[name] = n
	}
	return Level{n}, fresh
}

// Add adds a level for the entries with a key and, if it is not empty, a value; limit is an
// index, or None. If the text of both has a *, it is a pattern, where each * stands for any
// text or none. The level is for one text: fresh is false if there is one already, which does
// not change then.
func (l Level) Add(key, value string, limit int) (below Level, fresh bool) {
	text := entryText(key, value)
	if n := l.node.next[text]; n != nil {
		return Level{n}, false
	}
	n := newNode()
	n.limit = limit
	l.node.next[text] = n
	if parts := strings.Split(text, "*"); len(parts) > 1 {
		last := len(parts) - 1
		l.node.patterns = append(l.node.patterns, pattern{first: parts[0], middle: parts[1:last], last: parts[last], next: n})
	}
	return Level{n}, true
}

// entryText returns the text by which entries are compared.
func entryText(key, value string) string {
	if value == "" {
		return key
	}
	return key + "_" + value
}

// Find returns the limit of a descriptor, or None. Known reports whether the Tree has the
// domain.
func (t *Tree) Find(domain string, entries []Entry) (limit int, known bool) {
	n := t.domains[domain]
	if n == nil {
		return None, false
	}
	limit = None
	for _, e := range entries {
		if len(n.next) == 0 {
			return None, true
		}
		if n = n.find(e); n == nil {
			return None, true
		}
		limit = n.limit
	}
	return limit, true
}

// Domains returns the domains, sorted.
func (t *Tree) Domains() []string { return slices.Sorted(maps.Keys(t.domains)) }

// Texts returns what entries are compared with, as key_value, sorted.
func (t *Tree) Texts() []string {
	all := map[string]bool{}
	var add func(n *node)
	add = func(n *node) {
		for text, next := range n.next {
			all[text] = true
			add(next)
		}
	}
	for _, n := range t.domains {
		add(n)
	}
	return slices.Sorted(maps.Keys(all))
}

// Knows reports whether the Tree has the domain of a key.
func (t *Tree) Knows(key string) bool {
	domain, _, ok := Parse(key)
	return ok && t.domains[domain] != nil
}

// find returns the level of an entry, or nil.
func (n *node) find(e Entry) *node {
	text := e.Key + "_" + e.Value
	if next := n.next[text]; next != nil {
		return next
	}
	for i := range n.patterns {
		if p := &n.patterns[i]; p.matches(text) {
			return p.next
		}
	}
	return n.next[e.Key]
}
