package server

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Long keys are matched by half of the processors at most, however many requests there
// are for them; the others decide about short keys meanwhile.
func TestLongKeysLeaveProcessors(t *testing.T) {
	long := strings.Repeat("a", rules.MaxKeyLen+1)
	for name, ask := range map[string]func(s *Server, key string){
		"Decide": func(s *Server, key string) {
			var v decider.Verdict
			_ = s.Decide(t.Context(), &decider.Request{Key: key, N: 1}, &v)
		},
		"Wait": func(s *Server, key string) {
			var v decider.Verdict
			_ = s.Wait(t.Context(), &decider.Request{Key: key, N: 1}, &v)
		},
		"Batch": func(s *Server, key string) {
			_, _ = s.Batch(t.Context(), []decider.Request{{Key: key, N: 1}}, true, make([]decider.Verdict, 1))
		},
		"Explain": func(s *Server, key string) { _, _ = s.Explain(t.Context(), key) },
		"Acquire": func(s *Server, key string) { _, _ = s.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 1}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{{
				Name: "r", Regex: "a*b", Quota: config.Quota{Rate: config.Rate{Count: 10, Period: time.Second}},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			var leave func()
			for range max(runtime.GOMAXPROCS(0)/2, 1) { // as lookups that take long
				leave = s.keys.EnterLong()
			}
			ended := make(chan string, 2)
			go func() { ask(s, long); ended <- "long" }()
			go func() { ask(s, long[:rules.MaxKeyLen]); ended <- "short" }()
			synctest.Wait()
			if len(ended) != 1 || <-ended != "short" {
				t.Errorf("%s: while the places are taken, want the short key alone to be answered", name)
			}
			leave()
			synctest.Wait()
			if len(ended) != 1 {
				t.Errorf("%s: no answer for the long key after there is a place", name)
			}
		})
	}
}
