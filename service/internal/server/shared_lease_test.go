//go:build system

package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Every node answers a renewal with the id and the token of the grant, and the return of a lease
// that another node has ended or the store has lost with an error.
func TestSharedLeaseAnswers(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	all := sharedFleet(t, 2, "rules: [{name: jobs, glob: \"*\", concurrency: {limit: 3, ttl: 10s}}]", "redis://"+store.Addr, patient())
	ctx := context.Background()
	for _, n := range []int{1, 2} {
		granted, err := all[0].Acquire(ctx, decider.LeaseRequest{Key: "a", N: n})
		if err != nil || granted.Token == 0 {
			t.Fatalf("%+v, %v", granted, err)
		}
		for i, s := range all {
			if renewed, err := s.Renew(ctx, "a", granted.ID, time.Second); err != nil || renewed.Token != granted.Token || renewed.ID != granted.ID || renewed.N != n {
				t.Errorf("node %d: %+v, %v: want the token and the id of %+v", i, renewed, err, granted)
			}
		}
		if err := all[1].Return(ctx, "a", granted.ID, weir.Success); err != nil {
			t.Errorf("at the other node: %v", err)
		}
		for i, s := range all {
			if err := s.Return(ctx, "a", granted.ID, weir.Success); !errors.Is(err, decider.ErrNoLease) {
				t.Errorf("node %d, again: %v", i, err)
			}
		}
	}
	lost, err := all[0].Acquire(ctx, decider.LeaseRequest{Key: "a", N: 1})
	if err != nil {
		t.Fatal(err)
	}
	store.Do("FLUSHALL")
	if err := all[0].Return(ctx, "a", lost.ID, weir.Success); !errors.Is(err, decider.ErrNoLease) {
		t.Errorf("after the store has lost it: %v", err)
	}
	for _, id := range []string{"", "a", lost.ID + "-1", lost.ID[:32], lost.ID[:32] + "-0-1", "x" + lost.ID[1:]} {
		if _, err := all[1].Renew(ctx, "a", id, 0); !errors.Is(err, decider.ErrNoLease) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
