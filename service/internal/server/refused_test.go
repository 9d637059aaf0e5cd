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
	counted := func() uint64 {
		top, err := s.Top(t.Context(), 2001)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range top {
			if k.Key == "job:busy" {
				return k.LeasesRefused
			}
		}
		return 0
	}
	// Other keys may fill the set of the key. The server then remembers one new key in 32.
	for tries := 0; counted() == 0; tries++ {
		if tries == 100 {
			t.Fatal("refused leases of job:busy are not counted")
		}
		ask("job:busy", 1)
	}
	want := 1 + ask("job:busy", 300)
	if err := s.Reload(rules); err != nil {
		t.Fatal(err)
	}
	want += ask("job:busy", 50)
	top, err := s.Top(t.Context(), 1)
	if err != nil || len(top) != 1 || top[0].Key != "job:busy" {
		t.Fatalf("%+v, %v: want job:busy", top, err)
	}
	if top[0].LeasesRefused != want || top[0].Allowed+top[0].Denied > 0 {
		t.Errorf("%+v: want %d refused leases, and no other requests", top[0], want)
	}
	if n := testing.AllocsPerRun(100, func() { ask("job:busy", 1) }); n > 1 { // the Rejection
		t.Errorf("%v allocations for a refused lease", n)
	}
}
