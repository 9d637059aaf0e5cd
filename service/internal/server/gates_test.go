package server

import (
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/service/internal/config"
)

// Who asks under rules that have just been replaced asks again, rather than wait
// where nobody looks any more.
func TestAskingUnderOldRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{
			{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 1}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		old := s.rules.Load().rules[0]
		g := old.live.gates
		d := g.enter("a")
		if err := s.Reload(new(config.Rules)); err != nil {
			t.Fatal(err)
		}
		if err := (&lease{key: "a", n: 1}).ask(t.Context(), old, true); err != errMoved {
			t.Errorf("who comes in: %v", err)
		}
		if err := g.stand(t.Context(), &lessee{}, d, 1); err != errMoved {
			t.Errorf("who is in, and is to wait: %v", err)
		}
		s.Close(false)
		if err := s.Reload(&config.Rules{Rules: []config.Rule{old.Rule}}); err != nil {
			t.Fatal(err)
		}
		g = s.rules.Load().rules[0].live.gates
		if err := g.stand(t.Context(), &lessee{}, g.enter("a"), 1); err == nil {
			t.Error("who is in, and is to wait while the server closes, waits")
		}
	})
}
