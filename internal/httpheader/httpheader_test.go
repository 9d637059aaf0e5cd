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
