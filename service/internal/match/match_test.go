package match_test

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/match"
)

func newSet(t testing.TB, patterns ...match.Pattern) *match.Set {
	t.Helper()
	s, err := match.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func of(kind match.Kind, texts ...string) (patterns []match.Pattern) {
	for _, text := range texts {
		patterns = append(patterns, match.Pattern{Kind: kind, Text: text})
	}
	return patterns
}

func TestWhatMatches(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		kind    match.Kind
		text    string
		yes, no []string
	}{
		{"exact is the key itself", match.Exact, "a*?\\", []string{"a*?\\"}, []string{"", "a", "ab*?\\", "a*?\\b"}},
		{"exact may be empty", match.Exact, "", []string{""}, []string{"a"}},
		{"exact may be any bytes", match.Exact, "\xff\x00", []string{"\xff\x00"}, []string{"\ufffd\x00", "\xff"}},

		{"a glob is the whole key", match.Glob, "ab", []string{"ab"}, []string{"", "a", "abc", "cab"}},
		{"an empty glob is the empty key", match.Glob, "", []string{""}, []string{"a", " "}},
		{"* is any text", match.Glob, "*", []string{"", "a", "a/b\nc", "\xff"}, nil},
		{"* and * are *", match.Glob, "**", []string{"", "a", "ab"}, nil},
		{"* at the end", match.Glob, "a/*", []string{"a/", "a/b/c"}, []string{"a", "b/a/"}},
		{"* at the beginning", match.Glob, "*/a", []string{"/a", "b/c/a"}, []string{"a", "/ab"}},
		{"* at both ends", match.Glob, "*a*", []string{"a", "bab"}, []string{"", "b"}},
		{"* in between", match.Glob, "a*b", []string{"ab", "a/b", "abb", "a\nb"}, []string{"a", "b", "aba", "bab"}},
		{"beginning and end do not overlap", match.Glob, "aba*aba", []string{"abaaba"}, []string{"aba", "ababa"}},
		{"several *", match.Glob, "*a*b*a*", []string{"aba", "xaxbxax"}, []string{"ab", "bab", "aab"}},
		{"the last * gives way", match.Glob, "*ab*aac", []string{"abaac", "ababaaaac"}, []string{"aac", "abaaca"}},
		{"? is one character", match.Glob, "a?c", []string{"abc", "a/c", "a\nc", "aéc", "a€c", "a?c"}, []string{"ac", "abbc"}},
		{"? is one byte that is no UTF-8", match.Glob, "a?c", []string{"a\xffc", "a\xa9c"}, []string{"a\xff\xffc", "a\xe2\x82c"}},
		{"? is no part of a character", match.Glob, "??", []string{"éé", "\xc3\xc3\xa9"}, []string{"é", "€"}},
		{"* ends between characters", match.Glob, "*??", []string{"aé", "aaé"}, []string{"", "é", "€"}},
		{"? at the ends", match.Glob, "?a?", []string{"bab", "aaa"}, []string{"a", "ab", "ba"}},
		{`\* is a star`, match.Glob, `a\*`, []string{"a*"}, []string{"ab", `a\*`, `a\`}},
		{`\? is a question mark`, match.Glob, `\?*`, []string{"?", "?a"}, []string{"a", `\?`}},
		{`\\ is a backslash`, match.Glob, `\\*`, []string{`\`, `\a`}, []string{"*", ""}},
		{`\a is a`, match.Glob, `\a\é`, []string{"aé"}, []string{`\aé`}},
		{"brackets are text", match.Glob, "[ab]{c,d}", []string{"[ab]{c,d}"}, []string{"a", "ac"}},
		{"a byte that is no UTF-8 is itself", match.Glob, "*\xff*", []string{"\xff", "a\xffb"}, []string{"\ufffd", "a"}},
		{"a byte of a glob is no part of a character", match.Glob, "\xc3*", []string{"\xc3", "\xc3a"}, []string{"é"}},
		{"bytes of a glob that a backslash parts", match.Glob, "\xc3\\\xa9", nil, []string{"é", "\xc3"}},
		{"bytes of zero are bytes", match.Glob, "*\x00a*", []string{"\x00a", "b\x00ab"}, []string{"", "a", "ba"}},
		{"the replacement character is itself", match.Glob, "\ufffd*", []string{"\ufffd"}, []string{"\xff"}},

		{"a regex matches anywhere", match.Regex, "ab", []string{"ab", "cabc"}, []string{"", "ba"}},
		{"an empty regex matches all", match.Regex, "", []string{"", "a"}, nil},
		{"^ is the beginning", match.Regex, "^ab", []string{"ab", "abc"}, []string{"cab", "c\nab"}},
		{"$ is the end", match.Regex, "ab$", []string{"ab", "cab"}, []string{"abc", "ab\n"}},
		{"^ and $", match.Regex, "^ab$", []string{"ab"}, []string{"abc", "cab"}},
		{"^ of one alternative", match.Regex, "^ab|cd", []string{"abx", "xcd"}, []string{"xab"}},
		{"^ of all alternatives", match.Regex, "^(ab|cd)", []string{"abx", "cdx"}, []string{"xab", "xcd"}},
		{"^ of each alternative", match.Regex, "^ab|^ac", []string{"ab", "acx"}, []string{"xab", "a"}},
		{"^ that may be left out", match.Regex, "(^a)?b", []string{"ab", "b", "xb"}, []string{"a"}},
		{"^ in the middle", match.Regex, "a*^b", []string{"b", "bb"}, []string{"ab", "cb"}},
		{"^ that cannot be", match.Regex, "a^b", nil, []string{"ab", "b", "a"}},
		{"$ that cannot be", match.Regex, "a$b", nil, []string{"ab", "b", "a"}},
		{"$ that must be twice", match.Regex, "(ab$){2}", nil, []string{"ab", "abab"}},
		{"lines", match.Regex, "(?m)^abcd$", []string{"abcd", "x\nabcd\ny"}, []string{"xabcd", "abcdy"}},
		{"either case", match.Regex, "(?i)^abcd", []string{"abcd", "ABCDe", "aBcD"}, []string{"xabcd"}},
		{"either case of a part", match.Regex, "^ab(?i:cd)ef", []string{"abcdef", "abCDef"}, []string{"ABcdef", "abcdEF"}},
		{"the Kelvin sign is a k", match.Regex, "(?i)^key", []string{"key", "\u212aey"}, []string{"ey"}},
		{". is no newline", match.Regex, "^a.*b$", []string{"ab", "axb"}, []string{"a\nb"}},
		{".* at the end may be nothing", match.Regex, "^ab.*", []string{"ab", "ab\n"}, []string{"xab"}},
		{".* before $ is all there is", match.Regex, "^ab.*$", []string{"ab", "abc"}, []string{"ab\nc"}},
		{".+ is something", match.Regex, "^ab.+", []string{"abc"}, []string{"ab", "ab\n"}},
		{"+ is once at least", match.Regex, "^(abcd)+e", []string{"abcde", "abcdabcde"}, []string{"e", "abcd"}},
		{"+ at the end may be once", match.Regex, "^x(abcd)+", []string{"xabcd", "xabcde"}, []string{"x", "abcd"}},
		{"{2,} is twice at least", match.Regex, "(abcd){2,}", []string{"abcdabcd"}, []string{"abcd", "abcdxabcd"}},
		{"{0,2} may be nothing", match.Regex, "^(abcd){0,2}$", []string{"", "abcd", "abcdabcd"}, []string{"abc"}},
		{"{1,2} before the end", match.Regex, "^(ab){1,2}$", []string{"ab", "abab"}, []string{"", "ababab"}},
		{"words", match.Regex, `abcd\b efgh`, []string{"abcd efgh"}, []string{"abcdefgh"}},
		{"a word that begins", match.Regex, `\babcd`, []string{"abcd", "x abcd"}, []string{"xabcd"}},
		{"classes", match.Regex, "^user-[0-9]+:read$", []string{"user-1:read", "user-42:read"}, []string{"user-:read", "user-a:read"}},
		{"the replacement character is any that is none", match.Regex, "^a\ufffdb", []string{"a\xffb", "a\ufffdb"}, []string{"ab", "aéb"}},
		{"the replacement character alone", match.Regex, `\x{fffd}`, []string{"\xff", "\ufffd"}, []string{"", "a"}},
		{"nothing", match.Regex, `[^\x00-\x{10FFFF}]`, nil, []string{"", "a"}},

		{"an entry", match.Entries, "d|a=b", []string{"d|a=b"}, []string{"", "d", "d|a=", "d|a=bc", "d|b=a", "e|a=b", "|a=b", "d|a", "d|a=b|", "d|a=b "}},
		{"entries in any order", match.Entries, "d|a=1|b=2", []string{"d|a=1|b=2", "d|b=2|a=1"}, []string{"d|a=1", "d|b=2", "d|a=2|b=1"}},
		{"entries among others", match.Entries, "d|a=1|b=2", []string{"d|x=|b=2|y=1|a=1|z="}, []string{"d|x=|b=2|y=1|a=2"}},
		{"one of several entries of a key", match.Entries, "d|a=1", []string{"d|a=0|a=1|a=2", "d|a=1|a=1"}, []string{"d|a=0|a=2"}},
		{"several entries of a key", match.Entries, "d|a=1*|a=*2", []string{"d|a=12", "d|a=10|a=02"}, []string{"d|a=10", "d|a=02"}},
		{"a value is a glob", match.Entries, "d|path=/api/*", []string{"d|path=/api/", "d|path=/api/a/b?c=d"}, []string{"d|path=/api", "d|path=/login"}},
		{"a key is no glob", match.Entries, "d|*=a", []string{"d|*=a"}, []string{"d|b=a"}},
		{"* is a present entry", match.Entries, "d|a=*", []string{"d|a=", "d|a=b"}, []string{"d", "d|b=a"}},
		{"no value is the empty value", match.Entries, "d|a=", []string{"d|a="}, []string{"d|a=b"}},
		{"a domain is a glob", match.Entries, "ed*|a=1", []string{"ed|a=1", "edge|a=1"}, []string{"hedge|a=1"}},
		{"* is any domain", match.Entries, "*|a=1", []string{"|a=1", "edge|a=1"}, []string{"edge|b=1"}},
		{"globs are of the text before escaping", match.Entries, "?|a%3D=?", []string{"%7C|a%3D=%7C", "%25|a%3D=%C3", "a|a%3D=%20"}, []string{"%7C|a=%7C", "a|a%3D=%25%25"}},
	} {
		s := newSet(t, match.Pattern{Kind: tt.kind, Text: tt.text})
		for _, key := range tt.yes {
			if got := s.First(key); got != 0 {
				t.Errorf("%s: %q and %q: %d", tt.rule, tt.text, key, got)
			}
		}
		for _, key := range tt.no {
			if got := s.First(key); got != -1 {
				t.Errorf("%s: %q and %q: %d", tt.rule, tt.text, key, got)
			}
		}
	}
}

// The first pattern in the list counts, wherever the patterns are filed.
func TestTheOrderIsTheLists(t *testing.T) {
	patterns := []match.Pattern{
		{match.Exact, "user-1:read"}, {match.Glob, "user-*"}, {match.Glob, "*:read"}, {match.Glob, "*er-1*"},
		{match.Regex, "^user-1"}, {match.Regex, "[0-9]"}, {match.Glob, "*"}, {match.Exact, "user-1:read"},
		{match.Glob, "user-*:read"}, {match.Regex, "(?i)READ"},
	}
	for first := range patterns {
		turned := slices.Concat(of(match.Exact, "other"), patterns[first:], patterns[:first])
		s := newSet(t, turned...)
		if got := s.First("user-1:read"); got != 1 {
			t.Errorf("%v: %d, want 1", turned, got)
		}
		want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
		if got := s.All("user-1:read", nil); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", turned, got, want)
		}
	}
}

// If the head of one pattern begins with that of another, the first in the list counts,
// whether its head is the longest, the shortest or in between.
func TestNestedTextsKeepTheOrder(t *testing.T) {
	globs := []string{"abcdefg*", "abcdef*", "abcde*x", "abcd*", "abc*x", "ab*x", "a*"}
	for shift := range globs {
		turned := slices.Concat(globs[shift:], globs[:shift])
		s, n := newSet(t, of(match.Glob, turned...)...), newNaive(of(match.Glob, turned...))
		for _, key := range []string{"abcdefgx", "abcdefg", "abcdex", "abcde", "abx", "ab", "b", "abcdeyx"} {
			check(t, of(match.Glob, turned...), s, n, key)
		}
	}
}

func TestAllAppends(t *testing.T) {
	s := newSet(t, of(match.Glob, "a*", "b*", "*a")...)
	if got := s.All("a", []int{9, 8}); !slices.Equal(got, []int{9, 8, 0, 2}) {
		t.Errorf("%v", got)
	}
	if got := s.All("c", []int{9, 8}); !slices.Equal(got, []int{9, 8}) {
		t.Errorf("%v", got)
	}
}

// A pattern counts once, even if the key contains its text several times.
func TestAllNamesEachOnce(t *testing.T) {
	s := newSet(t, of(match.Glob, "*abcd*", "*ab*", "*b?*b*", "*d?a*")...)
	if got := s.All(strings.Repeat("abcd", 9), nil); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("%v", got)
	}
}

func TestAnEmptySetMatchesNothing(t *testing.T) {
	for _, s := range []*match.Set{newSet(t), new(match.Set)} {
		for _, key := range []string{"", "key"} {
			if first, all := s.First(key), s.All(key, nil); first != -1 || len(all) != 0 {
				t.Errorf("%q: %d, %v", key, first, all)
			}
		}
	}
}

func TestAnErrorNamesThePattern(t *testing.T) {
	for _, tt := range []struct {
		wrong match.Pattern
		want  string
	}{
		{match.Pattern{Kind: match.Glob, Text: `a\`}, `match: pattern 1, "a\\": ends with a lone backslash`},
		{match.Pattern{Kind: match.Glob, Text: `*\\\`}, `match: pattern 1, "*\\\\\\": ends with a lone backslash`},
		{match.Pattern{Kind: match.Regex, Text: "a("}, "match: pattern 1, \"a(\": error parsing regexp: missing closing ): `a(`"},
		{match.Pattern{Kind: match.Regex, Text: "\xff"}, "match: pattern 1, \"\\xff\": error parsing regexp: invalid UTF-8: `\xff`"},
		{match.Pattern{Kind: match.Entries, Text: "a"}, `match: pattern 1, "a": is not the key of a descriptor with entries`},
		{match.Pattern{Kind: match.Entries, Text: "a|b"}, `match: pattern 1, "a|b": is not the key of a descriptor with entries`},
		{match.Pattern{Kind: match.Entries, Text: `a\|b=c`}, `match: pattern 1, "a\\|b=c": domain "a\\": ends with a lone backslash`},
		{match.Pattern{Kind: match.Entries, Text: `a|b=c\`}, `match: pattern 1, "a|b=c\\": entry "b": ends with a lone backslash`},
		{match.Pattern{Kind: 7, Text: "a"}, `match: pattern 1, "a": unknown kind 7`},
	} {
		_, err := match.New([]match.Pattern{{match.Glob, "*"}, tt.wrong, {match.Regex, "("}})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%v: %v, want %s", tt.wrong, err, tt.want)
		}
		var cause *syntax.Error
		if errors.As(err, &cause) != (tt.wrong.Kind == match.Regex) {
			t.Errorf("%v: %v has no cause", tt.wrong, err)
		}
	}
}

// Regexes that need package regexp are left out, because it may allocate.
func TestLookupsDoNotAllocate(t *testing.T) {
	var patterns []match.Pattern
	for i := range 100 {
		patterns = append(patterns,
			match.Pattern{Kind: match.Exact, Text: fmt.Sprintf("user-%d:read", i)},
			match.Pattern{Kind: match.Glob, Text: fmt.Sprintf("user-%d:*", i)},
			match.Pattern{Kind: match.Glob, Text: fmt.Sprintf("*-%d:read", i)},
			match.Pattern{Kind: match.Glob, Text: fmt.Sprintf("u*-%d:*d", i)},
			match.Pattern{Kind: match.Glob, Text: fmt.Sprintf("*r-%d?*", i)},
			match.Pattern{Kind: match.Regex, Text: fmt.Sprintf("^user-%d:r", i)},
			match.Pattern{Kind: match.Regex, Text: fmt.Sprintf("r-%d:", i)})
	}
	patterns = append(patterns, of(match.Glob, "?*", "*")...)
	s := newSet(t, patterns...)
	into := make([]int, 0, 16)
	for _, key := range []string{"user-50:read", "user-99:write", "nobody", "", strings.Repeat("-5:", 500)} {
		if n := testing.AllocsPerRun(100, func() { s.First(key) }); n != 0 {
			t.Errorf("First(%.20q): %v allocations", key, n)
		}
		if n := testing.AllocsPerRun(100, func() { s.All(key, into) }); n != 0 {
			t.Errorf("All(%.20q): %v allocations", key, n)
		}
	}
	if got := s.All("user-50:read", into); len(got) != 10 { // one of each form, and user-5?
		t.Errorf("%v: want ten", got)
	}
}

// A key is parsed once in a lookup, however many patterns there are.
func TestADescriptorIsParsedOnce(t *testing.T) {
	allocations := func(n int, key string) float64 {
		var patterns []match.Pattern
		for i := range n {
			patterns = append(patterns, match.Pattern{Kind: match.Entries, Text: fmt.Sprintf("edge|path=/%d/*|user=*", i)})
		}
		s := newSet(t, patterns...)
		return testing.AllocsPerRun(100, func() { s.First(key) })
	}
	const key = "edge|method=GET|path=/a%7Cb|user=42"
	if one, thousand := allocations(1, key), allocations(1000, key); one == 0 || one != thousand {
		t.Errorf("%v allocations with a pattern, %v with a thousand", one, thousand)
	}
	if n := allocations(1000, "edge:path:user"); n != 0 {
		t.Errorf("%v allocations for a key without entries", n)
	}
}
