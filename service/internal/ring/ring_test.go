package ring

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Any member accepts any key, and all share one bucket.
func TestOneBucketForEachKey(t *testing.T) {
	inFleet(t, 3, bucket(30, time.Hour), func(t *testing.T, f *fleet) {
		f.want(map[string]string{"a": "live live live", "b": "live live live", "c": "live live live"})
		for _, owner := range f.names {
			key, given := f.ownedBy(owner), 0
			for _, at := range f.names {
				n, step := f.take(at, key, 20)
				given += n
				if step != decider.Exact {
					t.Errorf("%s at %s: %v", key, at, step)
				}
			}
			if given != 30 {
				t.Errorf("%s, a key of %s: %d tokens, want 30", key, owner, given)
			}
		}
	})
}
