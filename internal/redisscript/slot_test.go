package redisscript_test

import (
	"testing"

	"github.com/weir-go/weir/internal/redisscript"
)

// The slots agree with CLUSTER KEYSLOT.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}:bar": 12182, "a{foo}{bar}": 12182, "foo{}": 5542, "foo{": 7673, "{}foo": 9500,
	} {
		if got := redisscript.Slot(key); got != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
}
