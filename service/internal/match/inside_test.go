package match

import (
	"strings"
	"testing"
)

// A glob takes steps by the product of the lengths at most, and those that are
// made to explode take few.
func TestGlobsDoNotExplode(t *testing.T) {
	long := strings.Repeat("a", 10_000)
	for _, tt := range []struct {
		glob, key string
		want      bool
		most      int // steps for each byte of the key
	}{
		{"a*a*a*a*b", long, false, 2},
		{"a*a*a*a*b", long + "b", true, 2},
		{"*a*", long, true, 0}, // the rest is not looked at
		{strings.Repeat("a*", 1000) + "b", long, false, 2},
		{strings.Repeat("*?", 100) + "b", long, false, 2},
		{strings.Repeat("*", 1000) + "b", long, false, 2},
		{strings.Repeat("*a?", 100) + "*b", long, false, 2},
		{"*" + strings.Repeat("a", 50) + "b", long, false, 52}, // each place is tried
		{"*" + strings.Repeat("é", 50) + "b", strings.Repeat("é", 5000), false, 26},
	} {
		w, steps := walk{glob: tt.glob, key: tt.key}, 1
		for w.step() {
			steps++
		}
		if most := tt.most*len(tt.key) + len(tt.glob); w.matched != tt.want || steps > most {
			t.Errorf("%.20q of %d, %.5q of %d: %v in %d steps: want %v in %d at most",
				tt.glob, len(tt.glob), tt.key, len(tt.key), w.matched, steps, tt.want, most)
		}
	}
}

// What is filed is found without trying others.
func TestPatternsAreFiledWhereTheyAreAlone(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		text string
		want clue
	}{
		{Exact, "key", clue{whole, "key"}},
		{Glob, `k\*`, clue{whole, "k*"}},
		{Regex, "^key$", clue{whole, "key"}},
		{Regex, `^a\.b$`, clue{whole, "a.b"}},
		{Glob, "key*", clue{begin, "key"}},
		{Glob, "k?y*", clue{begin, "k"}},
		{Regex, "^key", clue{begin, "key"}},
		{Regex, "^key[0-9]+", clue{begin, "key"}},
		{Regex, "^(key)+", clue{begin, "key"}},
		{Regex, "^(?:key|kettle)", clue{begin, "ke"}},
		{Regex, "^key|^kettle", clue{}},
		{Glob, "*key", clue{end, "key"}},
		{Regex, "[0-9]key$", clue{end, "key"}},
		{Glob, "*key*", clue{inside, "key"}},
		{Glob, "*a*keys?", clue{inside, "a"}},
		{Regex, "[0-9]keys", clue{inside, "keys"}},
		{Regex, "[0-9]keyhole", clue{inside, "keyhol"}},
		{Regex, "^key|ring", clue{}},
		{Regex, "(?i)^key", clue{}},
		{Regex, "(?i:a)key$", clue{end, "key"}},
		{Regex, "^[a-z]+$", clue{}},
		{Regex, "(key)?", clue{}},
		{Glob, "?*", clue{}},
		{Glob, "*", clue{}},
	} {
		f, err := read(Pattern{tt.kind, tt.text})
		if err != nil {
			t.Fatal(err)
		}
		if got := rarest(f.clues(), nil); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}

// Where nothing but the place of a text matters, it is all that is looked at.
func TestPlainPatternsAreComparisons(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		text string
		want how
	}{
		{Exact, "key", equal}, {Glob, "key", equal}, {Regex, "^key$", equal}, {Glob, "", equal}, {Regex, "^$", equal},
		{Glob, "key*", hasPrefix}, {Glob, "key**", hasPrefix}, {Regex, "^key", hasPrefix}, {Regex, "^key.*", hasPrefix}, {Regex, "^(key)+", hasPrefix},
		{Glob, "*key", hasSuffix}, {Regex, "key$", hasSuffix}, {Regex, ".*key$", hasSuffix},
		{Glob, "*key*", contains}, {Glob, "*", contains}, {Regex, "key", contains}, {Regex, "", contains}, {Regex, ".*key[a-z]?", contains},
		{Glob, "k*y", byGlob}, {Glob, "?", byGlob}, {Glob, "key?", byGlob}, {Glob, "\xff*", byGlob},
		{Regex, "^key.*$", byRegex}, {Regex, "key.", byRegex}, {Regex, "(?i)key", byRegex}, {Regex, `\bkey`, byRegex},
	} {
		f, err := read(Pattern{tt.kind, tt.text})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.trial(tt.text).how; got != tt.want {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
}

// A key without the longest text of a pattern is not looked at any further.
func TestWhatHasNotTheTextIsNotTried(t *testing.T) {
	regex := trial{how: byRegex, text: "abc"} // panics if it is run
	glob := trial{how: byGlob, text: "abc", glob: "*"}
	if regex.match("ab") || glob.match("ab") {
		t.Error("matches without the text")
	}
	f, err := read(Pattern{Glob, "ab*abcd*a?"})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.trial("").text; got != "abcd" {
		t.Errorf("%q is the longest", got)
	}
}

// The longest text knows the lowest pattern of those that it begins with.
func TestNestedTextsAreNotTriedOneByOne(t *testing.T) {
	s, err := New([]Pattern{{Glob, "ab?*"}, {Glob, "ab*"}, {Glob, "abc*"}, {Glob, "abcd*"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.begin.longest("abcde"); n == nil || n.sure != 1 || n.least != 0 {
		t.Errorf("%+v", n)
	}
}

// A clue that others have, too, is as good as none.
func TestTheRarestClueIsTaken(t *testing.T) {
	for _, tt := range []struct {
		texts string
		want  clue // of the last
	}{
		{"a-*-b c-*-d", clue{begin, "c-"}},
		{"a-*-b a-*-d", clue{end, "-d"}},
		{"a-*-b c-*-b", clue{begin, "c-"}},
		{"a-*1000*-b a-*1000*-b a-*1001*-b", clue{inside, "1001"}},
		{"a-*user-10*-b a-*user-11*-b", clue{inside, "ser-11"}},
		{"a-*1000*-b a-*1000*-b a-*10*-b", clue{inside, "10"}},
	} {
		shared := map[clue]int{}
		var last []clue
		for _, text := range strings.Fields(tt.texts) {
			f, err := read(Pattern{Glob, text})
			if err != nil {
				t.Fatal(err)
			}
			last = f.clues()
			for _, c := range last {
				shared[c]++
			}
		}
		if got := rarest(last, shared); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.texts, got, tt.want)
		}
	}
}
