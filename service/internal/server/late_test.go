package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/counts"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// TestReturnToAWindowThatBeganMeanwhile: between the look at the clock and the
// decision, another request has begun the window. Tokens return to that window,
// when another rule denies the request and when its grant is settled.
func TestReturnToAWindowThatBeganMeanwhile(t *testing.T) {
	for _, settle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{{
				Name: "r", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: 10, Period: time.Second}, Algorithm: config.Fixed},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			before := s.clock.Now()
			time.Sleep(5 * time.Millisecond)
			var v decider.Verdict
			_ = s.Decide(t.Context(), &decider.Request{Key: "a", N: 1}, &v)
			req := decider.Request{Key: "a", N: 5}
			v = decider.Verdict{At: before}
			a := counts.Ask{Found: s.keys.Find("a", s.Set()), Req: &req, V: &v}
			if _, err := s.memory.Take(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			v.Grant.N = req.N
			if settle {
				if _, err := s.Settle(t.Context(), "a", string(s.AppendGrantID(nil, v.Grant, "a")), 0); err != nil {
					t.Fatal(err)
				}
			} else {
				s.memory.Undo(&a)
			}
			if x, _ := s.Explain(t.Context(), "a"); x.Rules[0].Used != 1 {
				t.Errorf("settle is %v: %d are used, want 1", settle, x.Rules[0].Used)
			}
		})
	}
}
