package match_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/match"
)

func TestFindUnreachable(t *testing.T) {
	exact := func(text string) match.Pattern { return match.Pattern{Kind: match.Exact, Text: text} }
	glob := func(text string) match.Pattern { return match.Pattern{Kind: match.Glob, Text: text} }
	regex := func(text string) match.Pattern { return match.Pattern{Kind: match.Regex, Text: text} }
	entries := func(text string) match.Pattern { return match.Pattern{Kind: match.Entries, Text: text} }
	for _, tt := range []struct {
		name string
		list []match.Pattern
		want []match.Unreachable
	}{
		{"none", []match.Pattern{exact("a"), glob("a*"), glob("*")}, nil},
		{"after every key", []match.Pattern{glob("*"), exact("a"), glob("a*"), regex("^b")}, []match.Unreachable{{1, 0}, {2, 0}, {3, 0}}},
		{"a prefix before a longer one", []match.Pattern{glob("user:*"), glob("user:admin:*"), exact("user:1"), glob("user*")}, []match.Unreachable{{1, 0}, {2, 0}}},
		{"? is one character", []match.Pattern{glob("a?*"), glob("a*?"), glob("a*")}, []match.Unreachable{{1, 0}}},
		{"a suffix", []match.Pattern{glob("*:read"), glob("user:*:read"), glob("*:rea?")}, []match.Unreachable{{1, 0}}},
		{"the same", []match.Pattern{regex("^a+$"), regex("^a+$")}, []match.Unreachable{{1, 0}}},
		{"a regex before a glob", []match.Pattern{regex("^user:[0-9a-z]+"), glob("user:7*"), glob("user:*")}, []match.Unreachable{{1, 0}}},
		{"a glob before a regex", []match.Pattern{glob("*b*"), regex("abc|b+"), regex("(?i)b")}, []match.Unreachable{{1, 0}}},
		{"a fold of case", []match.Pattern{regex("(?i)^k$"), exact("\u212a"), exact("K"), exact("l")}, []match.Unreachable{{1, 0}, {2, 0}}},
		{"a regex that matches all", []match.Pattern{regex(".*"), glob("a")}, []match.Unreachable{{1, 0}}},
		{"no key", []match.Pattern{regex("a^b"), regex(`^\s`), regex(`\s$`), regex("^$"), regex(`\n`), regex(`[^\x00-\x{10FFFF}]`), regex(`a\b_`)},
			[]match.Unreachable{{0, -1}, {1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}, {6, -1}}},
		{"a word boundary", []match.Pattern{regex(`\bfoo\b`), exact("a foo"), exact("afoo"), regex(`^foo[ -]`)}, []match.Unreachable{{1, 0}, {3, 0}}},
		{"entries", []match.Pattern{entries("edge|path=/api/*"), entries("edge|method=POST|path=/api/v1"), entries("edge|path=*"), entries("other|path=/api/v1"), exact("edge|path=/api/x")},
			[]match.Unreachable{{1, 0}, {4, 0}}},
		{"entries after a glob", []match.Pattern{glob("edge|*"), entries("edge|path=*"), entries("*|path=*")}, []match.Unreachable{{1, 0}}},
	} {
		got, err := match.FindUnreachable(tt.list, false)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, %v: want %v", tt.name, got, err, tt.want)
		}
	}
	if got, err := match.FindUnreachable([]match.Pattern{glob("*"), exact("a"), regex("a^b")}, true); err != nil || !reflect.DeepEqual(got, []match.Unreachable{{2, -1}}) {
		t.Errorf("all count: %v, %v", got, err)
	}
}

// For two patterns, the result is the same as from trying all keys of a small alphabet.
func TestUnreachableOracle(t *testing.T) {
	var keys []string
	var grow func(key string)
	grow = func(key string) {
		if key != "" && strings.TrimSpace(key) == key {
			keys = append(keys, key)
		}
		if len(key) < 5 {
			for _, c := range "abA- " {
				grow(key + string(c))
			}
		}
	}
	grow("")
	const seed = 22
	rng := rand.New(rand.NewPCG(seed, 0))
	globs, regexes := []string{"a", "b", " ", "*", "?"}, []string{"a", "b", ".", "[ab]", "a*", "(?:b|aa)", "^", "$", `\b`, "(?i:A)", `\s?`}
	pattern := func() (p match.Pattern) {
		p.Kind = match.Glob
		parts := globs
		if rng.IntN(2) == 0 {
			p.Kind, parts = match.Regex, regexes
		}
		for range 1 + rng.IntN(3) {
			p.Text += parts[rng.IntN(len(parts))]
		}
		if p.Text != strings.TrimSpace(p.Text) { // package config rejects it
			p.Text = "*"
		}
		return p
	}
	for range 400 {
		list := []match.Pattern{pattern(), pattern()}
		got, err := match.FindUnreachable(list, false)
		testrig.Must(t, err)
		set, err := match.New(list)
		testrig.Must(t, err)
		first, any := [2]bool{}, [2]bool{}
		for _, key := range keys {
			for n, i := range set.All(key, nil) {
				any[i] = true
				first[i] = first[i] || n == 0
			}
		}
		var want []match.Unreachable
		for i := range list {
			if list[i].Kind == match.Regex && !any[i] {
				want = append(want, match.Unreachable{Pattern: i, By: -1})
			} else if any[i] && !first[i] {
				want = append(want, match.Unreachable{Pattern: i, By: 0})
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("seed %d: %q: %v: want %v", seed, list, got, want)
		}
	}
}

// The search ends, whatever the patterns are.
func TestFindUnreachableIsBounded(t *testing.T) {
	hard := []match.Pattern{
		{Kind: match.Regex, Text: "(?:a|b)*a(?:a|b){100}$"}, {Kind: match.Glob, Text: "*" + strings.Repeat("a?", 300) + "*"},
		{Kind: match.Regex, Text: "^" + strings.Repeat(`[\pL\pN]*`, 20) + "$"},
	}
	for i := range 200 {
		hard = append(hard, match.Pattern{Kind: match.Regex, Text: fmt.Sprintf("%d.*(?:a|b)*a(?:a|b){50}", i)})
	}
	if _, err := match.FindUnreachable(hard, false); err != nil {
		t.Error(err)
	}
}
