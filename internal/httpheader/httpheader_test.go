package httpheader

import "testing"

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Request-Deadline": true, "a": true, "!#$%&'*+-.^_`|~09AZaz": true,
		"": false, "a b": false, "a:": false, "a\n": false, "é": false, "@": false, "[": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("%q: %v: want %v", name, got, want)
		}
	}
}

func TestValidValue(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, "Bearer abc": true, "a\tb": true, "é": true,
		"a\nb": false, "a\r": false, "\x00": false, "\x7f": false,
	} {
		if got := ValidValue(value); got != want {
			t.Errorf("%q: %v: want %v", value, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		list, first, rest string
		ok                bool
	}{
		{"", "", "", true}, {"a", "a", "", true}, {"a,b,c", "a", "b,c", true}, {",b", "", "b", true},
		{`x="a,b",c`, `x="a,b"`, "c", true}, {`"a\",b",c`, `"a\",b"`, "c", true}, {`a\,b`, `a\`, "b", true},
		{`"a,b`, `"a,b`, "", false}, {`"a\`, `"a\`, "", false},
	} {
		if first, rest, ok := Cut(tt.list, ','); first != tt.first || rest != tt.rest || ok != tt.ok {
			t.Errorf("Cut(%q): %q, %q, %v: want %q, %q, %v", tt.list, first, rest, ok, tt.first, tt.rest, tt.ok)
		}
	}
}
