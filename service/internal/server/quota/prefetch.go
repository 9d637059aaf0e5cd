package quota

import "github.com/weir-go/weir/internal/keyedtable"

// Prefetch has the processor fetch the token bucket of a fingerprint, for a Take that follows
// soon. That is for several keys: their memory is then waited for at once.
func Prefetch(b Buckets, fingerprint uint64) {
	if t, ok := b.(*tokens); ok {
		if l, ok := t.tokenBuckets.(*keyedtable.Buckets[string]); ok {
			l.Prefetch(fingerprint)
		}
	}
}
