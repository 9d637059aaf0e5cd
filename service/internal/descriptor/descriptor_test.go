package descriptor_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/server/decider"
)

type entries = []descriptor.Entry

// The text of a descriptor is as documented.
func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		domain  string
		entries entries
		want    string
	}{
		{"", nil, ""},
		{"edge", nil, "edge"},
		{"edge", entries{{"method", "POST"}, {"path", "/a/b?c=d"}}, "edge|method=POST|path=/a/b?c=d"},
		{"edge", entries{{"remote_address", ""}}, "edge|remote_address="},
		{"edge", entries{{"", ""}, {"", "="}}, "edge|=|=="},
		{"a|b=c%", entries{{"k=|%", "v=|%"}}, "a%7Cb%3Dc%25|k%3D%7C%25=v=%7C%25"},
		{"edge", entries{{"k\n", "v\x00\x7f\u0085"}}, "edge|k%0A=v%00%7F%C2%85"},
		{"edge", entries{{"größe", "日本"}}, "edge|größe=日本"},
		{"edge", entries{{"k", "\xffü\xc3"}}, "edge|k=%FFü%C3"},
		{"edge", entries{{"k", "\ufffd"}}, "edge|k=\ufffd"},
		{" edge ", entries{{" k ", "  v  "}}, "%20edge | k =  v %20"},
		{" ", nil, "%20"},
		{"\u2003\u2003", nil, "%E2%80%83%E2%80%83"},
		{"edge", entries{{"k", "v\u00a0"}}, "edge|k=v%C2%A0"},
	} {
		if got := string(descriptor.Append([]byte(" "), tt.domain, tt.entries)); got != " "+tt.want {
			t.Errorf("%q, %q: %q: want %q", tt.domain, tt.entries, got, tt.want)
		}
	}
}

// Texts that Append does not write are no descriptors: each descriptor has one key.
func TestParseRefuses(t *testing.T) {
	for _, key := range []string{
		"a=b", "%3d", "%3", "%", "%41", "a|", "a|b", "a|b=c|", " a", "a ", "a|b=c ", "a|b=%20c", "a|b=%3D", "a|b=c\n", "a|b=\xff", "a|b=c%7c", "a\u0085",
	} {
		if domain, entries, ok := descriptor.Parse(key); ok {
			t.Errorf("%q: %q, %q: want none", key, domain, entries)
		}
	}
}

// No two descriptors have the same key, and it is a key of every transport.
func FuzzDescriptor(f *testing.F) {
	f.Add("edge", "method", "POST", "path", "/a|b=c%")
	f.Add(" a", "", "=", "\xff", "x \u0085")
	f.Add("", "\u2003", "", "%41", "\u00a0")
	f.Fuzz(func(t *testing.T, domain, k1, v1, k2, v2 string) {
		for _, want := range []entries{nil, {{k1, v1}}, {{k1, v1}, {k2, v2}}} {
			key := string(descriptor.Append(nil, domain, want))
			gotDomain, got, ok := descriptor.Parse(key)
			if !ok || gotDomain != domain || !slices.Equal(got, want) {
				t.Fatalf("%q: %q, %q, %v: want %q, %q", key, gotDomain, got, ok, domain, want)
			}
			if key == "" {
				continue
			}
			if same, err := decider.ParseKey(key, math.MaxInt); err != nil || same != key {
				t.Fatalf("%q: %q, %v: want the same key", key, same, err)
			}
		}
		// Any text is either no descriptor's, or that of one.
		for _, key := range []string{domain, k1 + "|" + v1 + "=" + k2} {
			if domain, entries, ok := descriptor.Parse(key); ok && string(descriptor.Append(nil, domain, entries)) != key {
				t.Fatalf("%q: is not what Append writes of %q, %q", key, domain, entries)
			}
		}
	})
}

// Without a character to escape, a text is as long as its parts, and there is no allocation.
func TestAppendAllocates(t *testing.T) {
	b, in := make([]byte, 0, 100), entries{{"method", "POST"}, {"path", "/a"}}
	if n := testing.AllocsPerRun(100, func() { b = descriptor.Append(b[:0], "edge", in) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Append escapes all white space that transports trim.
func TestTrimmed(t *testing.T) {
	for r := range rune(unicode.MaxRune) {
		if !utf8.ValidRune(r) || strings.TrimSpace(string(r)) != "" {
			continue
		}
		if key := string(descriptor.Append(nil, string(r), nil)); key[0] != '%' {
			t.Errorf("%q: %q", r, key)
		}
	}
}

// Replace is Parse, other values, and Append. It allocates the result alone.
func TestReplace(t *testing.T) {
	texts := []string{"", "a", "/files/*", " x ", "a|b", "50%", "k=v", "\x80", "é\n", "a b"}
	for _, domain := range []string{"edge", " e|d%"} {
		for _, first := range texts {
			for _, last := range texts {
				for _, values := range [][]string{nil, {"*"}, {"", "* "}, {" *", "b*|%"}, {"x", "y", "z"}} {
					list := entries{{"path", first}, {"k=", last}}
					key := string(descriptor.Append(nil, domain, list))
					for i := range min(len(values), len(list)) {
						if values[i] != "" {
							list[i].Value = values[i]
						}
					}
					want := string(descriptor.Append(nil, domain, list))
					if got := descriptor.Replace(key, values); got != want {
						t.Errorf("%q with %q: %q: want %q", key, values, got, want)
					}
				}
			}
		}
	}
	if got := descriptor.Replace("edge", []string{"a"}); got != "edge" {
		t.Errorf("without entries: %q", got)
	}
	shares := []string{"", "/files/*"}
	if n := testing.AllocsPerRun(100, func() { descriptor.Replace("edge|method=POST|path=/files/a", shares) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
