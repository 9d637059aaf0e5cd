package match

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/descriptor"
)

// A glob takes at most as many steps as the product of the lengths. Globs that
// make a backtracking matcher explode take few.
func TestGlobsDoNotExplode(t *testing.T) {
	long := strings.Repeat("a", 10_000)
	for _, tt := range []struct {
		glob, key string
		want      bool
		most      int // steps for each byte of the key
	}{
		{"a*a*a*a*b", long, false, 2},
		{"a*a*a*a*b", long + "b", true, 2},
		{"*a*", long, true, 0}, // stops at the last *
		{strings.Repeat("a*", 1000) + "b", long, false, 2},
		{strings.Repeat("*?", 100) + "b", long, false, 2},
		{strings.Repeat("*", 1000) + "b", long, false, 2},
		{strings.Repeat("*a?", 100) + "*b", long, false, 2},
		{"*" + strings.Repeat("a", 50) + "b", long, false, 52}, // each place is tried
		{"*" + strings.Repeat("é", 50) + "b", strings.Repeat("é", 5000), false, 26},
	} {
		matched, steps := globbed(tt.glob, tt.key)
		if most := tt.most*len(tt.key) + len(tt.glob); matched != tt.want || steps > most {
			t.Errorf("%.20q of %d, %.5q of %d: %v in %d steps: want %v in %d at most",
				tt.glob, len(tt.glob), tt.key, len(tt.key), matched, steps, tt.want, most)
		}
	}
}

// A pattern is filed by the beginning or the end that its keys share.
func TestHeadAndTail(t *testing.T) {
	for _, tt := range []struct {
		kind       Kind
		text       string
		head, tail string
	}{
		{Glob, "key*", "key", ""},
		{Glob, "k?y*", "k", ""},
		{Glob, `\*k*\?`, "*k", "?"},
		{Glob, "*key", "", "key"},
		{Glob, "*key*", "", ""},
		{Glob, "*a*keys?", "", ""},
		{Glob, "?*", "", ""},
		{Regex, "^key", "key", ""},
		{Regex, "^key[0-9]+", "key", ""},
		{Regex, "^(?:key|kettle)", "ke", ""},
		{Regex, "^key-[0-9]+:read$", "key-", ":read"},
		{Regex, "[0-9]key$", "", "key"},
		{Regex, "(?i:a)key$", "", "key"},
		{Regex, "(?i)^key", "", ""},
		{Regex, "^(key)+", "", ""},
		{Regex, "^key|^kettle", "", ""},
		{Regex, "^key|ring", "", ""},
		{Regex, "^[a-z]+$", "", ""},
		{Regex, "(?m)^key$", "", ""},
		{Regex, "key", "", ""},
	} {
		m, err := compile(Pattern{tt.kind, tt.text})
		testrig.Must(t, err)
		if m.head != tt.head || m.tail != tt.tail {
			t.Errorf("%q: head %q, tail %q: want %q, %q", tt.text, m.head, m.tail, tt.head, tt.tail)
		}
	}
}

// A pattern that says only where one text is takes one comparison.
func TestPlainPatternsAreComparisons(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		text string
		want test
	}{
		{Exact, "key", equal}, {Glob, "key", equal}, {Regex, "^key$", equal}, {Glob, "", equal}, {Regex, "^$", equal}, {Regex, `^a\.b$`, equal}, {Glob, `k\*`, equal},
		{Glob, "key*", hasPrefix}, {Glob, "key**", hasPrefix}, {Regex, "^key", hasPrefix},
		{Glob, "*key", hasSuffix}, {Regex, "key$", hasSuffix},
		{Glob, "*key*", contains}, {Glob, "*", contains}, {Regex, "key", contains}, {Regex, "", contains},
		{Glob, "k*y", byGlob}, {Glob, "?", byGlob}, {Glob, "key?", byGlob}, {Glob, "\xff*", byGlob},
		{Regex, "^key.*$", byRegex}, {Regex, "key.", byRegex}, {Regex, "(?i)key", byRegex}, {Regex, `\bkey`, byRegex}, {Regex, "^key.*", byRegex},
	} {
		m, err := compile(Pattern{tt.kind, tt.text})
		testrig.Must(t, err)
		if m.test != tt.want {
			t.Errorf("%q: %v, want %v", tt.text, m.test, tt.want)
		}
	}
}

// A key that lacks the longest text of a pattern costs no walk and no regexp.
func TestTheLongestTextIsTestedFirst(t *testing.T) {
	regex := matcher{test: byRegex, text: "abc"} // panics if the regexp runs
	glob := matcher{test: byGlob, text: "abc", glob: "*"}
	if regex.match("ab") || glob.match("ab") {
		t.Error("a key matches without the text")
	}
	for _, p := range []Pattern{{Glob, "ab*abcd*a?"}, {Regex, "ab[0-9]abcd.a"}} {
		m, err := compile(p)
		testrig.Must(t, err)
		if m.text != "abcd" {
			t.Errorf("%q: longest text %q", p.Text, m.text)
		}
	}
}

// Of a head and a tail, a pattern is filed by the one that fewer patterns share.
func TestFiledByTheRarerText(t *testing.T) {
	for _, tt := range []struct {
		globs      string
		head, tail string // of the last
	}{
		{"a-*-b c-*-d", "c-", ""},
		{"a-*-b a-*-d", "", "-d"},
		{"a-*-b c-*-b", "c-", ""},
	} {
		var patterns []Pattern
		for _, text := range strings.Fields(tt.globs) {
			patterns = append(patterns, Pattern{Glob, text})
		}
		s, err := New(patterns)
		testrig.Must(t, err)
		last := int32(len(patterns) - 1)
		if head, tail := slices.Contains(s.begin.patterns[tt.head], last), slices.Contains(s.end.patterns[tt.tail], last); head != (tt.head != "") || tail != (tt.tail != "") {
			t.Errorf("%s: filed by its head: %t, by its tail: %t", tt.globs, head, tail)
		}
	}
}

// A pattern of entries is filed by the entry that the fewest patterns share.
func TestFiledByTheRarestEntry(t *testing.T) {
	s, err := New([]Pattern{{Entries, "*|method=POST|path=/a*"}, {Entries, "*|method=POST|path=/b"}, {Entries, "*|method=POST|user=*"}, {Entries, "*|path=/*"}})
	testrig.Must(t, err)
	for f, want := range map[filing][]int32{
		{descriptor.Entry{Key: "path"}, false}:                 {0, 3},
		{descriptor.Entry{Key: "path", Value: "/b"}, true}:     {1},
		{descriptor.Entry{Key: "user"}, false}:                 {2},
		{descriptor.Entry{Key: "method", Value: "POST"}, true}: nil,
	} {
		if got := s.entries[f]; !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", f, got, want)
		}
	}
}
