package prefetch_test

import (
	"testing"

	"github.com/weir-go/weir/internal/prefetch"
)

// Any address will do, and the word keeps its value.
func TestLine(t *testing.T) {
	words := make([]uint64, 9)
	for i := range words {
		words[i] = uint64(i)
		prefetch.Line(&words[i])
	}
	prefetch.Line[uint64](nil)
	for i, w := range words {
		if w != uint64(i) {
			t.Errorf("word %d is %d", i, w)
		}
	}
}
