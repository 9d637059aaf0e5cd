package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// wholeLimit assigns 700 tokens a minute for each key.
type wholeLimit struct{}

func (wholeLimit) Exchange(_ context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	a := leaf.Answer{TTLMS: 10_000, NextMS: 1000}
	for _, r := range x.Reports {
		a.Assignments = append(a.Assignments, leaf.Assignment{Key: r.Key, Rate: 700. / 60, Burst: 700, LimitRate: 700. / 60, LimitBurst: 700, Leaves: 1})
	}
	return a, nil
}

// A settlement leaves the bucket of an assignment, or of the upstream, as one from which only the true
// cost was taken at the instant of the grant.
func TestTierPartialSettlements(t *testing.T) {
	for _, tt := range []struct {
		calls, was, n int
		after         time.Duration
		left          int
	}{
		{1, 200, 80, 4 * time.Second, 666},
		{1, 200, 80, 12 * time.Second, 700},
		{7, 100, 20, 15 * time.Second, 700},
	} {
		for _, step := range []decider.Step{decider.Assigned, decider.Exact} {
			t.Run(fmt.Sprintf("%d times %d after %v, %v", tt.calls, tt.was, tt.after, step), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					rules := parsed(t, `rules: [{name: all, glob: "*", rate: 700/m}]`)
					up := newDesk(t, server.Config{Rules: rules})
					cfg := server.TierConfig{Name: "zone", Upstream: up.Server, Assigner: wholeLimit{}}
					if step == decider.Exact {
						cfg.AssignFrom = 1000
					}
					z, err := server.NewTier(server.Config{Rules: rules}, cfg)
					must(t, err)
					defer func() { _ = z.Disconnect(context.Background()) }()
					var v decider.Verdict
					take := func(n int) {
						t.Helper()
						must(t, z.Decide(t.Context(), &decider.Request{Key: "a", N: n, WantID: n > 0}, &v))
					}
					for range 61 { // the bucket of the assignment fills
						take(0)
						time.Sleep(time.Second)
					}
					var ids []string
					for range tt.calls {
						if take(tt.was); !v.OK || v.Step != step {
							t.Fatalf("%+v", v)
						}
						ids = append(ids, string(z.AppendGrantID(nil, v.Grant, "a")))
					}
					time.Sleep(tt.after)
					for _, id := range ids {
						done, err := z.Settle(t.Context(), "a", id, tt.n)
						must(t, err)
						check(t, "settled", done, decider.Settlement{Was: tt.was, Charged: tt.n})
					}
					take(0)
					check(t, "left", v.Answers[0].Remaining, tt.left)
				})
			})
		}
	}
}
