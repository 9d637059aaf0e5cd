package problem

import "testing"

func TestSpan(t *testing.T) {
	for seconds, want := range map[string]string{
		"1": "a second", "2": "2 seconds", "120": "120 seconds", "121": "3 minutes", "3600": "60 minutes", "7200": "120 minutes",
		"7201": "3 hours", "172800": "48 hours", "172801": "3 days", "9223372037": "106752 days", "soon": "soon seconds",
	} {
		if got := span(seconds); got != want {
			t.Errorf("%s: %q: want %q", seconds, got, want)
		}
	}
}
