package server

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/memory"
)

// To keep the rule of an answer keeps nothing else in memory: counts of a rule that is gone can be
// collected.
func TestAnswersKeepNoCounts(t *testing.T) {
	for name, merge := range map[string]bool{"rules": false, "merged rules": true} {
		t.Run(name, func(t *testing.T) {
			rules := func(name string, period time.Duration) *config.Rules {
				r := config.Rule{Name: name, Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 10, Period: period}, Algorithm: config.Fixed}}
				return &config.Rules{Rules: []config.Rule{r}, Merge: merge}
			}
			s, err := New(Config{Rules: rules("first", time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			var v decider.Verdict
			if err := s.Decide(t.Context(), &decider.Request{Key: "a", N: 1}, &v); err != nil {
				t.Fatal(err)
			}
			x, err := s.Explain(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			var states []weak.Pointer[memory.State]
			for st := range s.memory.Current().States {
				states = append(states, weak.Make(st))
			}
			if err := s.Reload(rules("second", time.Minute)); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			for _, w := range states {
				if w.Value() != nil {
					t.Error("counts of a rule that is gone are still in memory")
				}
			}
			if len(states) == 0 || v.Answers[0].Rule.Name != "first" || x.Rules[0].Rule.Name != "first" {
				t.Errorf("%d states, %+v, %+v", len(states), v, x)
			}
		})
	}
}
