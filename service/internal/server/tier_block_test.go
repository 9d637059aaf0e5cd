package server_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Tier that must not use its upstream decides as if that were away, and says why. Allowed to use it again, it
// says whether it answers.
func TestTierBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: fast, glob: "*", rate: 100/s, away: share}]`, server.TierConfig{})
		state := func(what, want string, step decider.Step) {
			t.Helper()
			check(t, what+": step", z.take("k", 1).Step, step)
			check(t, what+": why", fmt.Sprint(z.TierStats().Reason), want)
			check(t, what+": away", z.TierStats().Away, want != "<nil>")
		}
		z.take("k", 1)
		z.Block(errors.New("a cycle"))
		time.Sleep(2 * server.DefaultAssignmentTTL)
		state("blocked", "a cycle", decider.Share)
		z.Block(nil)
		time.Sleep(10 * time.Second)
		z.take("k", 1)
		time.Sleep(10 * time.Second)
		state("back", "<nil>", decider.Assigned)
		z.wire.cut.Store(true)
		time.Sleep(2 * server.DefaultAssignmentTTL)
		state("cut off", "the wire is cut", decider.Share)
		z.Block(errors.New("a cycle"))
		state("blocked, too", "a cycle", decider.Share)
		z.Block(nil)
		state("still cut off", "the upstream of the limits does not answer", decider.Share)
	})
}
