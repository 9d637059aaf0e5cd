//go:build !race

package keyedtable_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/keyedtable"
)

// A million keys take 40 bytes each, whatever they are counted in, and none of
// them is forgotten.
func TestMemoryOfAMillionKeys(t *testing.T) {
	const keys = 1_000_000
	for _, q := range []keyedtable.Window{{Limit: 10, Period: time.Hour}, {Limit: 10, Period: time.Hour, Sliding: true}} {
		before := heap()
		l := newLimiter(t, q, keyedtable.Config{})
		for i := range keys {
			l.Take(fmt.Sprint("user-", i), 1, 0)
		}
		s := l.Stats()
		if each := float64(heap()-before) / keys; each > 40 || s.Forgotten > 0 {
			t.Errorf("sliding %v: %.1f bytes a key, %d forgotten", q.Sliding, each, s.Forgotten)
		}
		runtime.KeepAlive(l)
	}
}
