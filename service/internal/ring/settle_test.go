package ring

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// A settlement at any member leaves the bucket at the owner as one from which only the true cost was
// taken at the instant of the grant.
func TestPartialSettlements(t *testing.T) {
	for _, tt := range []struct {
		calls, was, n int
		after         time.Duration
		left          int
	}{
		{1, 200, 80, 4 * time.Second, 666},
		{1, 200, 80, 12 * time.Second, 700},
		{7, 100, 20, 15 * time.Second, 700},
	} {
		t.Run(fmt.Sprintf("%d times %d after %v", tt.calls, tt.was, tt.after), func(t *testing.T) {
			inFleet(t, 3, bucket(700, time.Minute), func(t *testing.T, f *fleet) {
				ctx := context.Background()
				for _, owner := range f.names {
					key := f.ownedBy(owner)
					var v decider.Verdict
					var ids []string
					for range tt.calls {
						if err := f.nodes["a"].Decide(ctx, &decider.Request{Key: key, N: tt.was, WantID: true}, &v); err != nil || !v.OK {
							t.Fatalf("%+v, %v", v, err)
						}
						ids = append(ids, string(f.nodes["a"].AppendGrantID(nil, v.Grant, key)))
					}
					time.Sleep(tt.after)
					for _, id := range ids {
						done, err := f.nodes["b"].Settle(ctx, key, id, tt.n)
						if err != nil || done != (decider.Settled{Was: tt.was, Charged: tt.n}) {
							t.Errorf("a key of %s: %+v, %v", owner, done, err)
						}
					}
					if err := f.nodes["c"].Decide(ctx, &decider.Request{Key: key}, &v); err != nil || v.Answers[0].Remaining != tt.left {
						t.Errorf("a key of %s: %+v, %v: want %d left", owner, v, err, tt.left)
					}
				}
			})
		})
	}
}
