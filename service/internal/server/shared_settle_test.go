//go:build system

package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A settlement at any instance leaves the bucket in the store as one from which only the true cost was
// taken at the instant of the grant.
func TestSharedPartialSettlements(t *testing.T) {
	for _, engine := range redistest.Engines {
		url := "redis://" + redistest.Start(t, engine).Addr
		const rules = `rules: [{name: all, glob: "*", rate: 700/6s}]`
		one, other := shared(t, rules, url, patient()), shared(t, rules, url, patient())
		time.Sleep(time.Second) // both know the secret
		for _, tt := range []struct {
			calls, was, n int
			after         time.Duration
			left          int
		}{
			{1, 200, 80, 400 * time.Millisecond, 666},
			{1, 200, 80, 1200 * time.Millisecond, 700},
			{7, 100, 20, 1500 * time.Millisecond, 700},
		} {
			t.Run(fmt.Sprintf("%s, %d times %d after %v", engine, tt.calls, tt.was, tt.after), func(t *testing.T) {
				t.Parallel()
				ctx, key := context.Background(), t.Name()
				var v decider.Verdict
				var ids []string
				for range tt.calls {
					must(t, one.Decide(ctx, &decider.Request{Key: key, N: tt.was, WantID: true}, &v))
					if !v.OK || v.Step != decider.Exact {
						t.Fatalf("%+v", v)
					}
					ids = append(ids, string(one.AppendGrantID(nil, v.Grant, key)))
				}
				time.Sleep(tt.after)
				for _, id := range ids {
					done, err := other.Settle(ctx, key, id, tt.n)
					must(t, err)
					check(t, "settled", done, decider.Settled{Was: tt.was, Charged: tt.n})
				}
				must(t, other.Decide(ctx, &decider.Request{Key: key}, &v))
				if left := v.Answers[0].Remaining; left < tt.left { // time goes on
					t.Errorf("%d left, want %d or more", left, tt.left)
				}
			})
		}
	}
}
