package match_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/weir-go/weir/service/internal/match"
)

const many = 10_000

// A form is a way to write many patterns, each for another key.
type form struct {
	name    string
	pattern func(i int) match.Pattern
	key     func(i int) string // that pattern i matches
}

func name(i int) string { return fmt.Sprintf("user-%05d", i) }

func forms() []form {
	as := func(kind match.Kind, format string) func(int) match.Pattern {
		return func(i int) match.Pattern { return match.Pattern{Kind: kind, Text: fmt.Sprintf(format, name(i))} }
	}
	key := func(i int) string { return "api:" + name(i) + ":read" }
	fs := []form{
		{"exact", as(match.Exact, "api:%s:read"), key},
		{"prefix", as(match.Glob, "api:%s:*"), key},
		{"suffix", as(match.Glob, "*:%s:read"), key},
		{"inside", as(match.Glob, "*:%s:*"), key},
		{"between", as(match.Glob, "api*%s*read"), key},
		{"anchored regex", as(match.Regex, "^api:%s:[a-z]+$"), key},
		{"regex", as(match.Regex, "[a-z]:%s:"), key},
	}
	pure := fs
	fs = append(fs, form{"mix", func(i int) match.Pattern { return pure[i%len(pure)].pattern(i) }, key})
	// Each six bytes of a text are in a hundred others at least.
	words := []string{"orders", "users", "invoices", "payments", "reports", "search", "upload", "export", "session", "profile"}
	shared := func(i int) string {
		return words[i%10] + "/" + words[i/10%10] + "/" + words[i/100%10] + "/" + words[i/1000%10]
	}
	fs = append(fs, form{"shared words", func(i int) match.Pattern {
		return match.Pattern{Kind: match.Regex, Text: "[a-z]:" + shared(i) + ":"}
	}, func(i int) string {
		if i >= many {
			return "api:" + shared(i) + "/:read"
		}
		return "api:" + shared(i) + ":read"
	}})
	// Of forty texts in a row, each begins with the one before. No text is less than
	// twenty long, so a key that differs before that is a miss.
	nested := func(i, n int) string {
		rng := rand.New(rand.NewPCG(uint64(i/40), 0))
		b := make([]byte, n)
		for j := range b {
			b[j] = "01"[rng.IntN(2)]
		}
		return string(b)
	}
	return append(fs, form{"nested", func(i int) match.Pattern {
		return match.Pattern{Kind: match.Glob, Text: nested(i, 20+i%40) + "*"}
	}, func(i int) string {
		if i >= many {
			return nested(i-many, 19) + ":read"
		}
		return nested(i, 20+i%40) + ":read"
	}}, form{"nested, longest first", func(i int) match.Pattern {
		return match.Pattern{Kind: match.Glob, Text: nested(i, 59-i%40) + "*"}
	}, func(i int) string {
		if i >= many {
			return nested(i-many, 19) + ":read"
		}
		return nested(i, 59-i%40) + ":read"
	}})
}

// Ten thousand patterns of a form, and beside it a regexp for each, one after
// the other, of a hundredth of the patterns. Keys take turns, except for the
// last, which the last pattern matches.
func BenchmarkFirst(b *testing.B) {
	for _, f := range forms() {
		patterns := make([]match.Pattern, many)
		for i := range patterns {
			patterns[i] = f.pattern(i)
		}
		var hits, misses [1024]string
		for i := range hits {
			hits[i] = f.key(i * (many / len(hits)))
			misses[i] = f.key(many + i*(many/len(hits)))
		}
		last := [1]string{f.key(many - 1)}
		s := newSet(b, patterns...)
		for _, k := range []struct {
			name string
			keys []string
		}{{"hit", hits[:]}, {"last", last[:]}, {"miss", misses[:]}} {
			for _, key := range k.keys {
				if found := s.All(key, nil); (len(found) > 0) != (k.name != "miss") ||
					k.name == "last" && found[len(found)-1] != many-1 {
					b.Fatalf("%s: %q is no %s: %v", f.name, key, k.name, found)
				}
			}
			b.Run(f.name+"/"+k.name, func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					s.First(k.keys[i&(len(k.keys)-1)])
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
		b.Run(f.name+"/naive of 100", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				n.first(misses[i&1023])
			}
		})
	}
}

// Regexes without a clue are tried one by one.
func BenchmarkWithoutClue(b *testing.B) {
	const key = "api:user-00042:read"
	for _, n := range []int{1, 10, 100, 1000} {
		patterns := make([]match.Pattern, n)
		for i := range patterns { // none is longer than the key, which regexp would see at once
			patterns[i] = match.Pattern{Kind: match.Regex, Text: fmt.Sprintf("^[a-z]+[:.][a-z]+[-_][0-9]{%d}[a-z]", 1+i%5)}
		}
		s := newSet(b, patterns...)
		if found := s.First(key); found >= 0 {
			b.Fatalf("pattern %d matches", found)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s.First(key)
			}
		})
	}
}

// How long it takes to make a Set, and how much it holds.
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
