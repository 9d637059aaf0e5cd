//go:build !race

package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A request after a move gets the verdict that it would get if nothing had moved.
func TestMovesChangeNoVerdict(t *testing.T) {
	for name, rule := range map[string]config.Rule{
		"a bucket for each key": one("r", quota(5, time.Second, config.GCRA)),
		"an odd rate":           one("r", quota(7, 13*time.Second, config.GCRA)),
		"a high rate":           one("r", quota(3_000_000_000, time.Second, config.GCRA)),
		"one bucket":            {Name: "r", Glob: "*", Per: config.PerRule, Quota: quota(20, time.Second, config.GCRA)},
		"windows of keys":       one("r", quota(5, 3*time.Second, config.Fixed)),
		"one window":            {Name: "r", Glob: "*", Per: config.PerRule, Quota: quota(20, time.Second, config.Fixed)},
		"sliding windows":       one("r", quota(9, 4*time.Second, config.Sliding)),
		"windows of the clock":  one("r", quota(5, time.Minute, config.FixedWindow)),
		"calendar windows":      one("r", quota(5, time.Minute, config.Calendar)),
		"quotas of requests":    {Name: "r", Glob: "*", OwnQuota: true, Quota: quota(5, time.Second, config.GCRA)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				rules := config.Rules{Rules: []config.Rule{rule}}
				f := newFleet(t, 3, rules)
				alone := newDesk(t, server.Config{Rules: &rules})
				random := rand.New(rand.NewPCG(1, uint64(len(name))))
				allowed := 0
				for i := range 4000 {
					time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
					if i%7 == 0 {
						slots := slot.All()
						if i%3 > 0 {
							slots = f.one(fmt.Sprint("k", random.IntN(8)))
						}
						f.move(slots, random.IntN(3))
					}
					req := decider.Request{Key: fmt.Sprint("k", random.IntN(8)), N: 1 + random.IntN(3)}
					if rule.Rate.Count > 1000 {
						req.N *= 500_000_000
					}
					if rule.OwnQuota && i%2 == 0 {
						req.Quota = &decider.Quota{Count: 2 + random.IntN(2), Period: time.Second}
					}
					var got, want decider.Verdict
					f.of(req.Key).Decide(&req, &got)
					alone.Decide(&req, &want)
					// Each move rounds a bucket up to its next unit, of less than a nanosecond.
					g, w := got.Answers[0].Decision, want.Answers[0].Decision
					late := max(g.ResetAfter-w.ResetAfter, g.RetryAfter-w.RetryAfter)
					if g.OK != w.OK || g.Remaining != w.Remaining || late < 0 || late > time.Microsecond {
						t.Fatalf("step %d: %+v: want %+v", i, g, w)
					}
					if got.OK {
						allowed++
					}
				}
				if allowed < 100 || allowed > 3900 {
					t.Errorf("%d of 4000 requests are allowed", allowed)
				}
			})
		})
	}
}
