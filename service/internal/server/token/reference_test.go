package token

import (
	"reflect"
	"slices"
	"testing"
)

// The reference has every key of a file.
func TestReference(t *testing.T) {
	var got, want []string
	for _, f := range Reference {
		got = append(got, f.Path)
	}
	want = append(want, "tokens")
	of := reflect.TypeFor[entry]()
	for i := range of.NumField() {
		want = append(want, "tokens[]."+of.Field(i).Tag.Get("yaml"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
}
