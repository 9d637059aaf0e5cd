package decidertest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A request that has waited for tokens of a rule, and has no rules then, gives them back.
func TestAwaitGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toy := &toy{Node: counts.Node{Clock: clock.New(), Room: waiting.NewRoom(1)}, all: map[string]*toyBucket{}}
		var sets [2]*rules.Set
		for i, name := range []string{"old", "next"} {
			cfg := &config.Rules{Rules: []config.Rule{{Name: name, Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Hour}}}}}
			if err := cfg.Complete(); err != nil {
				t.Fatal(err)
			}
			var err error
			if sets[i], err = rules.Compile(cfg, sets[0]); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(set *rules.Set) counts.Asked {
			at := decider.Verdict{At: toy.Clock.Now()}
			return counts.Asked{Ask: counts.Ask{Found: rules.Found{Match: set.Find("a")}, Req: &decider.Request{Key: "a", N: 1}, V: &at}}
		}
		takes := func(set *rules.Set) bool {
			a := ask(set)
			_, err := toy.Take(t.Context(), a.Ask)
			return err == nil && a.V.Answers[0].OK
		}
		if !takes(sets[0]) {
			t.Fatal("the bucket is not full")
		}
		go func() {
			a := ask(sets[0])
			toy.Await(t.Context(), &a, func(*counts.Asked) bool { return false })
		}()
		synctest.Wait()
		done, err := toy.Use(sets[1])
		if err != nil {
			t.Fatal(err)
		}
		done()
		synctest.Wait()
		if !takes(sets[1]) {
			t.Error("the tokens are lost")
		}
	})
}
