package match_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/match"
)

const many = 10_000

// A form is a way to write many patterns, each for another key.
type form struct {
	name    string
	pattern func(i int) match.Pattern
	key     func(i int) string // that pattern i matches, and no pattern from many on
}

func forms() []form {
	as := func(kind match.Kind, format string) func(int) match.Pattern {
		return func(i int) match.Pattern { return match.Pattern{Kind: kind, Text: fmt.Sprintf(format, i)} }
	}
	key := func(i int) string { return fmt.Sprintf("api:user-%05d:read", i) }
	return []form{
		{"exact", as(match.Exact, "api:user-%05d:read"), key},
		{"prefix", as(match.Glob, "api:user-%05d:*"), key},
		{"suffix", as(match.Glob, "*:user-%05d:read"), key},
		{"between", as(match.Glob, "api*:user-%05d:read"), key},
		{"regex", as(match.Regex, "^api:user-%05d:[a-z]+$"), key},
		{"entries", as(match.Entries, "api|method=*|user=user-%05d"), func(i int) string { return fmt.Sprintf("api|user=user-%05d|method=GET", i) }},
		{"realistic", realistic, realisticKey},
	}
}

// words are parts of realistic keys, of several lengths.
var words = []string{"orders", "users", "invoices", "pay", "reports/daily", "search", "upload", "export/csv", "session", "me"}

// realistic is a rule of a service with thousands of tenants. Of a hundred rules, 60
// are exact keys, 32 are prefixes, 4 are suffixes, and 3 have a * in the middle. Of
// ten thousand, 60 are about a text in the middle, 30 are anchored regexes, and 10 are
// unanchored regexes.
func realistic(i int) match.Pattern {
	word, tenant := words[i%len(words)], fmt.Sprintf("tenant-%d", i*7919)
	switch n := i % 100; {
	case n < 60:
		return match.Pattern{Kind: match.Exact, Text: tenant + "/" + word}
	case n < 92:
		return match.Pattern{Kind: match.Glob, Text: tenant + "/" + word + "/*"}
	case n < 96:
		return match.Pattern{Kind: match.Glob, Text: fmt.Sprintf("*/%s-%d", word, i)}
	case n < 99:
		return match.Pattern{Kind: match.Glob, Text: tenant + "/*/" + word}
	}
	switch n := i / 100; {
	case n < 60:
		return match.Pattern{Kind: match.Glob, Text: fmt.Sprintf("*/admin-%d/*", i)}
	case n < 90:
		return match.Pattern{Kind: match.Regex, Text: fmt.Sprintf("^tenant-%d/[a-z]+/[0-9]+$", i*7919)}
	default:
		return match.Pattern{Kind: match.Regex, Text: fmt.Sprintf("(?i)/bot-%d", i)}
	}
}

// realisticKey returns a key of rule i, or for i of at least many, of no rule.
func realisticKey(i int) string {
	if i >= many {
		return fmt.Sprintf("tenant-%d/%s/%d", i*7919, words[i%len(words)], i)
	}
	return strings.NewReplacer("*", "any", "(?i)", "any", "^", "", "$", "", "[a-z]+", "any", "[0-9]+", "7").Replace(realistic(i).Text)
}

// Lookups among ten thousand patterns. "one by one" tests a hundredth of the
// patterns in turn with package regexp.
func BenchmarkFirst(b *testing.B) {
	for _, f := range forms() {
		patterns := make([]match.Pattern, many)
		for i := range patterns {
			patterns[i] = f.pattern(i)
		}
		var hits, misses [1024]string
		for i := range hits {
			hits[i] = f.key(i * many / len(hits))
			misses[i] = f.key(many + i*many/len(hits))
		}
		s := newSet(b, patterns...)
		for i := range hits {
			if hit, miss := s.First(hits[i]), s.First(misses[i]); hit < 0 || miss >= 0 {
				b.Fatalf("%s: %q: %d, %q: %d", f.name, hits[i], hit, misses[i], miss)
			}
		}
		for _, k := range []struct {
			name string
			keys []string
		}{{"hit", hits[:]}, {"miss", misses[:]}} {
			b.Run(f.name+"/"+k.name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					s.First(k.keys[i&1023])
				}
			})
		}
		b.Run(f.name+"/all", func(b *testing.B) {
			b.ReportAllocs()
			into := make([]int, 0, 64)
			for i := 0; b.Loop(); i++ {
				s.All(hits[i&1023], into)
			}
		})
		n := newNaive(patterns[:many/100])
		b.Run(f.name+"/one by one of 100", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				n.first(misses[i&1023])
			}
		})
	}
}

// Patterns without a head or a tail are tested one by one.
func BenchmarkUnanchored(b *testing.B) {
	const key = "api:user-00042:read"
	for _, f := range []struct {
		name, format string
		kind         match.Kind
	}{
		{"glob", "*:group-%05d:*", match.Glob},
		{"regex", "group-[0-9]:%05d", match.Regex},
		{"regex without text", "^[a-z]+[:.][a-z]+[-_][0-9]{5}[a-z]{%d}", match.Regex},
	} {
		for _, n := range []int{10, 100, 1000} {
			patterns := make([]match.Pattern, n)
			for i := range patterns {
				patterns[i] = match.Pattern{Kind: f.kind, Text: fmt.Sprintf(f.format, 1+i%100)}
			}
			s := newSet(b, patterns...)
			if found := s.First(key); found >= 0 {
				b.Fatalf("pattern %d matches", found)
			}
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				for b.Loop() {
					s.First(key)
				}
			})
		}
	}
}

// The time to make a Set, and the memory that it holds.
func BenchmarkNew(b *testing.B) {
	for _, f := range forms() {
		patterns := make([]match.Pattern, many)
		for i := range patterns {
			patterns[i] = f.pattern(i)
		}
		b.Run(f.name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			s := newSet(b, patterns...)
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(s)
			for b.Loop() {
				newSet(b, patterns...)
			}
			b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/many, "B/pattern")
		})
	}
}
