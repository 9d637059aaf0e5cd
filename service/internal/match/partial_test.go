package match

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const separators = ":/|= "

// hide returns a key of which the segments that are no words are unknown.
func hide(key string, p *Partial) (parts []Part) {
	words := p.Words()
	for text, segment := range Split(key, separators) {
		if segment && !slices.Contains(words, text) {
			parts = append(parts, Part{Kinds: KindsOf(text)})
		} else {
			parts = append(parts, Part{Text: text})
		}
	}
	return parts
}

func TestSplit(t *testing.T) {
	for key, want := range map[string]string{
		"user:42":              "<user>:<42>",
		"a":                    "<a>",
		"::":                   "::",
		"/api/v1/-/x":          "/<api>/<v1>/-/<x>",
		"edge|path=%7Ca%25|b=": "<edge>|<path>=%7C<a>%25|<b>=",
		"é:%7":                 "<é>:<%7>",
		"%7c":                  "<%7c>",
	} {
		var got strings.Builder
		for text, segment := range Split(key, separators) {
			if segment {
				text = "<" + text + ">"
			}
			got.WriteString(text)
		}
		if got.String() != want {
			t.Errorf("%s: %s: want %s", key, &got, want)
		}
	}
}

func TestPartial(t *testing.T) {
	for _, tt := range []struct {
		pattern Pattern
		key     string
		sure    bool
	}{
		{Pattern{Exact, "user:42"}, "user:43", true},
		{Pattern{Exact, "user:42"}, "user:42", true},
		{Pattern{Glob, "login:*"}, "login:jane", true},
		{Pattern{Glob, "login:*"}, "user:jane", true},
		{Pattern{Glob, "*:admin"}, "x:y:admin", true},
		{Pattern{Glob, "*"}, "x", true},
		{Pattern{Glob, "user:4*"}, "user:jane7", false}, // it may be 4jane
		{Pattern{Glob, "user:4*"}, "user:42", false},
		{Pattern{Glob, "user:4*"}, "user:4", true},
		{Pattern{Glob, "user:4*"}, "login:42", true},
		{Pattern{Glob, "user:é*"}, "user:42", true}, // it has digits alone
		{Pattern{Glob, "*admin*"}, "17:42", true},
		{Pattern{Glob, "*admin*"}, "user:jane", false},
		{Pattern{Glob, "*admin*"}, "admin:jane", true},
		{Pattern{Glob, "user:?"}, "user:jane", false},
		{Pattern{Glob, "user:?*"}, "user:jane", true},
		{Pattern{Regex, "^user:[0-9]+$"}, "user:42", true},
		{Pattern{Regex, "^user:[0-9]+$"}, "user:jane", true},
		{Pattern{Regex, "^user:[0-9]+$"}, "user:jane7", false},
		{Pattern{Regex, "^user:[0-9]{2}$"}, "user:42", false},
		{Pattern{Regex, "^(login|logout|signup):"}, "logout:7", true},
		{Pattern{Regex, "^(login|logout|signup):"}, "other:7", true},
		{Pattern{Regex, "^(login|logout|signup):"}, "o:login:7", true},
		{Pattern{Regex, `^[^:]+:\w+$`}, "tenant:route", true},
		{Pattern{Regex, `/v[12]/`}, "GET /v1/x", true},
		{Pattern{Regex, `/v[12]/`}, "GET /v3/x", true},
		{Pattern{Regex, `/v\d+/`}, "GET /v3/x", false},
		{Pattern{Regex, `\badmin\b`}, "admin:x7", true},
		{Pattern{Regex, `\badmin\b`}, "other:x-7", false}, // it may be admin-7
		{Pattern{Regex, `\badmin\b`}, "other:x7", true},
		{Pattern{Regex, `(?i)^admin:`}, "ADMIN:7", true},
		{Pattern{Entries, "edge|path=/api/%2A"}, "edge|path=/api/x", true},
		{Pattern{Entries, "edge|path=/api/*"}, "edge|path=/api/x|user=jane", true},
		{Pattern{Entries, "edge|path=/api/*"}, "other|path=/api/x", true},
		{Pattern{Entries, "*|path=/api*"}, "edge|path=/apix", false},
		{Pattern{Entries, "*|path=/api*"}, "edge|method=apix", true},
		{Pattern{Entries, "*|path=/api*"}, "edge path=apix", true},
	} {
		p, err := NewPartial([]Pattern{tt.pattern}, separators)
		if err != nil {
			t.Fatal(err)
		}
		if sure := p.Doubt(hide(tt.key, p), false) < 0; sure != tt.sure {
			t.Errorf("%v, %s: %v: sure %t: want %t", tt.pattern, tt.key, hide(tt.key, p), sure, tt.sure)
		}
	}
}

// A pattern of a descriptor.Tree is in doubt for an entry whose text it may match.
func TestPartialEntries(t *testing.T) {
	p, err := NewPartialEntries([]string{"edge"}, []string{"path_/files/*", "user_a*", "plan_gold"}, separators)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{
		"edge|path=/files/x": -1, "edge|path=/x": -1, "edge|user=jane": 1, "edge|user=42": -1, "edge|method=x|user=ab": 1, "edge|plan=gold": -1, "edge|plan=x": -1, "user": -1,
	} {
		if got := p.Doubt(hide(key, p), true); got != want {
			t.Errorf("%s: %d: want %d", key, got, want)
		}
	}
}

// With all set, each pattern counts; without it, those up to the first that matches.
func TestPartialFirst(t *testing.T) {
	p, err := NewPartial([]Pattern{{Glob, "x:*"}, {Glob, "user:4*"}, {Glob, "user:*"}, {Glob, "*a*"}}, separators)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][2]int{"x:b": {-1, 3}, "x:a": {-1, -1}, "user:42": {1, 1}, "user:b7": {1, 1}, "user:é": {-1, -1}, "z:1": {3, 3}, "1:1": {-1, -1}} {
		if got := [2]int{p.Doubt(hide(key, p), false), p.Doubt(hide(key, p), true)}; got != want {
			t.Errorf("%s: %v: want %v", key, got, want)
		}
	}
}

// disguise returns a key with other segments of the same kinds in place of the unknown ones.
func disguise(key string, p *Partial, rng *rand.Rand) string {
	words, kinds := p.Words(), [...]string{"0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "-_.~", "éß日"}
	var b strings.Builder
	for text, segment := range Split(key, separators) {
		for other := text; segment && !slices.Contains(words, text); text = other {
			var chars []rune
			for kind, all := range kinds {
				if KindsOf(text)>>kind&1 != 0 {
					chars = append(chars, []rune(all)...)
				}
			}
			other = ""
			for range 1 + rng.IntN(4) {
				other += string(chars[rng.IntN(len(chars))])
			}
			if !slices.Contains(words, other) && KindsOf(other) != Punctuation {
				text, segment = other, false
				break
			}
			other = text
		}
		b.WriteString(text)
	}
	return b.String()
}

// A pattern that is not in doubt matches a key if and only if it matches each other key that looks the same.
func FuzzPartial(f *testing.F) {
	for i, text := range []string{"user:*", "a*", "*a:?", "^a|b:", "[ab]+:[0-9]+$", `\ba\b`, "(?i)ab", "x|a=b*|c=*", "a.b/.*c", "*:a:*", "é*"} {
		f.Add(text, "a:b/ab 1|a=ab|c=é-1", uint8(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text, key string, kind uint8, seed uint64) {
		if len(text) > 30 || len(key) > 60 || strings.ContainsFunc(key, func(r rune) bool { return !isKeyCharacter(r) || r == '\ufffd' }) {
			return
		}
		pattern := Pattern{Kind(kind % 4), text}
		set, err := New([]Pattern{pattern})
		if err != nil {
			return
		}
		p, err := NewPartial([]Pattern{pattern}, separators)
		if err != nil {
			return // it is no regex for package syntax
		}
		if p.Doubt(hide(key, p), false) >= 0 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		for range 20 {
			other := disguise(key, p, rng)
			if a, b := set.First(key), set.First(other); a != b {
				t.Fatalf("%v: %q: %d, %q: %d, and not in doubt", pattern, key, a, other, b)
			}
		}
	})
}

// Many keys and many patterns take no more than the steps of the automata.
func BenchmarkPartial(b *testing.B) {
	var patterns []Pattern
	for _, text := range []string{"user:4*", "*admin*", "a*b*c", "tenant:*"} {
		patterns = append(patterns, Pattern{Glob, text})
	}
	patterns = append(patterns, Pattern{Regex, `^[^:]+:(\w+|\d{3})$`})
	p, err := NewPartial(patterns, separators)
	if err != nil {
		b.Fatal(err)
	}
	parts := hide("tenantx:janedoe:42", p)
	for b.Loop() {
		p.Doubt(parts, true)
	}
}
