package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func TestFirstLight(t *testing.T) {
	for _, algorithm := range []config.Algorithm{config.GCRA, config.Fixed, config.Sliding} {
		t.Run(string(algorithm), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{{
					Name: "all", Glob: "*",
					Quota: config.Quota{Rate: config.Rate{Count: 2, Period: time.Second}, Algorithm: algorithm},
				}}}})
				if err != nil {
					t.Fatal(err)
				}
				var v decider.Verdict
				for i, want := range []bool{true, true, false} {
					_ = s.Decide(context.Background(), &decider.Request{Key: "a", N: 1}, &v)
					if v.OK != want {
						t.Errorf("request %d: %+v", i, v)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if err := s.Wait(ctx, &decider.Request{Key: "a", N: 1}, &v); err != nil || v.OK || v.Reason != weir.TooLate {
					t.Errorf("cannot make it: %v %+v", err, v)
				}
				start := time.Now()
				if err := s.Wait(t.Context(), &decider.Request{Key: "a", N: 1}, &v); err != nil || !v.OK {
					t.Errorf("waits: %v %+v", err, v)
				}
				t.Log(time.Since(start), v.Waited)
			})
		})
	}
}
