package server_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Top has the refused leases of a key, also of many keys and after a reload.
func TestTopLeases(t *testing.T) {
	rules := &config.Rules{Rules: []config.Rule{
		{Name: "jobs", Glob: "job:*", Concurrency: &config.Concurrency{Limit: 1}},
	}}
	s, err := server.New(server.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(key string, times int) (refused uint64) {
		for range times {
			if _, err := s.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 1}); err != nil {
				refused++
			}
		}
		return refused
	}
	for n := range 2000 {
		ask(fmt.Sprint("job:", n), 2)
	}
	want := ask("job:busy", 300)
	if err := s.Reload(rules); err != nil {
		t.Fatal(err)
	}
	want += ask("job:busy", 50)
	top, err := s.Top(t.Context(), 1)
	if err != nil || len(top) != 1 || top[0].Key != "job:busy" {
		t.Fatalf("%+v, %v: want job:busy", top, err)
	}
	// It may have taken the place of another key, and miss as many as that had.
	if got := top[0].LeasesRefused; got > want || got < want-10 || top[0].Allowed+top[0].Denied > 0 {
		t.Errorf("%+v: want %d refused leases, and no other requests", top[0], want)
	}
	if n := testing.AllocsPerRun(100, func() { ask("job:busy", 1) }); n > 1 { // the Rejection
		t.Errorf("%v allocations for a refused lease", n)
	}
}
