package match_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/match"
)

// naive matches with a regexp for each pattern, one after the other.
type naive []func(key string) bool

func newNaive(patterns []match.Pattern) (n naive) {
	for _, p := range patterns {
		switch p.Kind {
		case match.Exact:
			n = append(n, func(key string) bool { return key == p.Text })
		case match.Glob:
			re := regexp.MustCompile(globAsRegexp(p.Text))
			n = append(n, func(key string) bool { return re.MatchString(valid(key)) })
		case match.Entries:
			n = append(n, func(key string) bool { return matchesEntries(p.Text, key) })
		default:
			n = append(n, regexp.MustCompile(p.Text).MatchString)
		}
	}
	return n
}

// matchesEntries compares every entry of a pattern with every entry of a key.
func matchesEntries(pattern, key string) bool {
	globbed := func(glob, text string) bool { return regexp.MustCompile(globAsRegexp(glob)).MatchString(valid(text)) }
	wantDomain, want, _ := descriptor.Parse(pattern)
	domain, entries, ok := descriptor.Parse(key)
	if !ok || !globbed(wantDomain, domain) {
		return false
	}
	for _, w := range want {
		has := func(e descriptor.Entry) bool { return e.Key == w.Key && globbed(w.Value, e.Value) }
		if !slices.ContainsFunc(entries, has) {
			return false
		}
	}
	return true
}

func (n naive) first(key string) int {
	for i, matches := range n {
		if matches(key) {
			return i
		}
	}
	return -1
}

func (n naive) all(key string) (found []int) {
	for i, matches := range n {
		if matches(key) {
			found = append(found, i)
		}
	}
	return found
}

// valid replaces each byte that is not UTF-8 by a different private character,
// because a regexp cannot tell such bytes apart.
func valid(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && s[i] >= 0x80 && !strings.HasPrefix(s[i:], "\ufffd") {
			r = 0x10f000 + rune(s[i])
		}
		b.WriteRune(r)
	}
	return b.String()
}

func globAsRegexp(glob string) string {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	escaped := false
	for _, r := range valid(glob) {
		switch {
		case escaped || !strings.ContainsRune(`*?\`, r):
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '*':
			b.WriteString(".*")
		case r == '?':
			b.WriteString(".")
		default:
			escaped = true
		}
	}
	b.WriteString(`\z`)
	return b.String()
}

func check(t *testing.T, patterns []match.Pattern, s *match.Set, n naive, key string) {
	t.Helper()
	if got, want := s.First(key), n.first(key); got != want {
		t.Errorf("%q: First(%q) = %d, want %d", patterns, key, got, want)
	}
	if got, want := s.All(key, nil), n.all(key); !slices.Equal(got, want) {
		t.Errorf("%q: All(%q) = %v, want %v", patterns, key, got, want)
	}
}

// Few characters, so that many keys match: some have several bytes, some of which
// they share, and some are not UTF-8.
var (
	letters   = []string{"a", "b", "ab", "aba", "é", "è", "€", "\xc3", "\xa9", "\ufffd", "/", "\n", "*", "k"}
	globs     = append([]string{"*", "*", "*", "?", `\*`, `\?`, `\\`, `\a`, "\\\xa9"}, letters[:11]...)
	fragments = []string{
		"a", "b", "ab", "aba", "é", "è", "€", "/", `\n`, `\x{fffd}`, `\x{d800}`, "^", "^", "$", "$", ".", ".*", "a*", "b?", "a+", "(?s:.*)", "(?:ab)+",
		"|", "(?:a|^b)", "(?:ab|ac)", "(?i:a)", "(?i:k)", "(?m:^)", "(?m:$)", `\b`, `\B`, "[ab]", "[^a]", "(?:ab){2}", "(?:b$){1,2}",
		"(?:^a)?", "(?:^a)+", "(?:aba){0}", "(?:)", "(a)", `\A`, `\z`,
	}
)

// A draft makes patterns and keys from any bytes.
type draft struct{ bytes []byte }

func (d *draft) next() int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b)
}

func (d *draft) text(of []string, most int) string {
	var b strings.Builder
	for range d.next() % (most + 1) {
		b.WriteString(of[d.next()%len(of)])
	}
	return b.String()
}

// descriptor makes the key of a descriptor, with at least one entry. Few keys of entries, so
// that many descriptors have several entries of one.
func (d *draft) descriptor(of []string, most int) string {
	domain := d.text(of, 1)
	var entries []descriptor.Entry
	for range 1 + d.next()%4 {
		entries = append(entries, descriptor.Entry{Key: []string{"a", "b", "é|=", ""}[d.next()%4], Value: d.text(of, most)})
	}
	return string(descriptor.Append(nil, domain, entries))
}

func (d *draft) key() string {
	if d.next()%2 == 0 {
		return d.descriptor(letters, 2)
	}
	return d.text(append(letters, "|", "="), 8)
}

func (d *draft) pattern() match.Pattern {
	switch d.next() % 8 {
	case 5, 6, 7:
		return match.Pattern{Kind: match.Entries, Text: d.descriptor(globs, 2)}
	case 0:
		return match.Pattern{Kind: match.Exact, Text: d.text(letters, 3)}
	case 1, 2:
		return match.Pattern{Kind: match.Glob, Text: d.text(globs, 7)}
	}
	return match.Pattern{Kind: match.Regex, Text: d.text(fragments, 6)}
}

// The Set and the oracle agree on each key, for random patterns.
func FuzzMatch(f *testing.F) {
	f.Add(uint8(3), []byte("some patterns, some keys"))
	for seed := range uint64(300) { // so that each run of the tests is a little fuzzing
		rng := rand.New(rand.NewPCG(seed, 0))
		bytes := make([]byte, 400)
		for i := range bytes {
			bytes[i] = byte(rng.Uint32())
		}
		f.Add(uint8(rng.Uint32()), bytes)
	}
	f.Fuzz(func(t *testing.T, size uint8, bytes []byte) {
		d := draft{bytes}
		patterns := make([]match.Pattern, size%40)
		for i := range patterns {
			patterns[i] = d.pattern()
		}
		s, n := newSet(t, patterns...), newNaive(patterns)
		check(t, patterns, s, n, "")
		for len(d.bytes) > 0 {
			check(t, patterns, s, n, d.key())
		}
	})
}

// A thousand patterns, many of which begin, or end, with others.
func TestManyAreAsOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(most int) string {
		b := make([]byte, 1+rng.IntN(most))
		for i := range b {
			b[i] = "ab:"[rng.IntN(3)]
		}
		return string(b)
	}
	var patterns []match.Pattern
	var keys []string
	for i := range 1000 {
		key := random(20)
		n := rng.IntN(len(key) + 1)
		keys = append(keys, key, random(8))
		patterns = append(patterns, []match.Pattern{
			{match.Exact, key}, {match.Glob, key[:n] + "*"}, {match.Glob, "*" + key[n:]}, {match.Glob, "*" + key + "*"},
			{match.Glob, key[:n] + "*" + random(6)}, {match.Glob, "*" + key[:n] + "?" + random(6) + "*"},
			{match.Regex, "^" + key[:n] + "[ab]"}, {match.Regex, key[n:] + "[:]"},
		}[i%8])
	}
	s, n := newSet(t, patterns...), newNaive(patterns)
	for i, key := range keys[:160] {
		want := n.all(key)
		if got := s.All(key, nil); !slices.Equal(got, want) {
			t.Fatalf("%q: %v, want %v", key, got, want)
		}
		if i%16 == 0 && len(want) == 0 { // key i/2 is a pattern
			t.Fatalf("%q: its own pattern does not match", key)
		}
		if got, want := s.First(key), n.first(key); got != want {
			t.Fatalf("%q: %d, want %d", key, got, want)
		}
	}
}
