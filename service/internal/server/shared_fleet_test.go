//go:build system

package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redistest"
	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// sharedFleet returns nodes that share a store.
func sharedFleet(t testing.TB, n int, rules, url string, cfg server.StoreConfig) (all []*server.Shared) {
	t.Helper()
	for range n {
		all = append(all, shared(t, rules, url, cfg))
	}
	return all
}

// decide asks a node for one token of a key.
func decide(t testing.TB, s decider.Decider, key string) (v decider.Verdict) {
	t.Helper()
	if err := s.Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// drain takes tokens of a key until it is denied, and returns how many there were.
func drain(t testing.TB, s decider.Decider, key string) (n int) {
	t.Helper()
	for decide(t, s, key).OK {
		n++
	}
	return n
}

// Holders at three nodes never have more units than the limit. Every lease has a token higher
// than those before, and units of a holder that is gone are free after the time to live.
func TestSharedLeases(t *testing.T) {
	const limit = 4
	url := "redis://" + redistest.Start(t, "valkey-server").Addr
	nodes := sharedFleet(t, 3, "rules:\n  - {name: jobs, glob: '*', concurrency: {limit: 4, ttl: 1s, queue: 1000}}\n", url, patient())
	var mu sync.Mutex
	held, most := 0, 0
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			l, err := nodes[i%3].Acquire(t.Context(), decider.LeaseRequest{Key: "k", N: 1 + i%2, Wait: true})
			if err != nil {
				t.Errorf("caller %d: %v", i, err)
				return
			}
			mu.Lock()
			held += l.N
			most = max(most, held)
			mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			mu.Lock()
			held -= l.N
			mu.Unlock()
			if err := nodes[(i+1)%3].Return(t.Context(), "k", l.ID, weir.Success); err != nil { // at another node
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if most > limit {
		t.Errorf("%d units were held, want at most %d", most, limit)
	}
	lost, err := nodes[0].Acquire(t.Context(), decider.LeaseRequest{Key: "k", N: limit})
	if err != nil {
		t.Fatal(err)
	}
	if renewed, err := nodes[1].Renew(t.Context(), "k", lost.ID, 200*time.Millisecond); err != nil || renewed.Inflight != limit {
		t.Errorf("%+v, %v: want a renewal at another node", renewed, err)
	}
	next, err := nodes[2].Acquire(t.Context(), decider.LeaseRequest{Key: "k", N: 1, Wait: true})
	if err != nil || next.Token <= lost.Token {
		t.Errorf("%+v, %v: want a lease with a token above %d", next, err, lost.Token)
	}
	if _, err := nodes[0].Renew(t.Context(), "k", lost.ID, 0); err != decider.ErrNoLease {
		t.Errorf("renewal of a lease that has expired: %v", err)
	}
}

const ladderRules = `
unmatched: allow
rules:
  - {name: share, glob: "share*", rate: 40/h}
  - {name: deny, glob: "deny*", rate: 40/h, away: deny}
  - {name: allow, glob: "allow*", rate: 40/h, away: allow}
  - {name: leases, glob: "lease*", concurrency: {limit: 8}}
`

// The steps of each rule before, during and after the absence of the store, which comes back
// empty: what was allowed meanwhile is charged.
func TestSharedLadder(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	var reported []error
	var mu sync.Mutex
	cfg := server.StoreConfig{Instances: 4, Known: -1}
	cfg.Link.OnAway = func(err error) { mu.Lock(); defer mu.Unlock(); reported = append(reported, err) }
	s := shared(t, ladderRules, "redis://"+store.Addr, cfg)
	for range 20 {
		decide(t, s, "share")
	}
	store.Kill()
	redistest.Until(t, "the store is away", func() error {
		if v := decide(t, s, "other"); v.Step != decider.Exact { // no rule: nothing to share
			t.Errorf("%+v", v)
		}
		if decide(t, s, "share-probe"); !s.StoreStats().Away {
			return fmt.Errorf("%+v", s.StoreStats())
		}
		return nil
	})
	for key, want := range map[string]int{"share": 5, "share-new": 10, "deny": 0} {
		if n := drain(t, s, key); n != want {
			t.Errorf("%d tokens of %s while the store is away, want %d", n, key, want)
		}
	}
	for key, want := range map[string]decider.Verdict{
		"share": {Step: decider.Share, Reason: weir.OverRate}, "deny": {Step: decider.ByRule, Reason: weir.Closed}, "allow": {Step: decider.ByRule, OK: true},
	} {
		if v := decide(t, s, key); v.Step != want.Step || v.Reason != want.Reason || v.OK != want.OK || !v.OK && v.RetryAfter <= 0 {
			t.Errorf("%s: %+v, want %+v", key, v, want)
		}
	}
	for i := range 3 {
		_, err := s.Acquire(t.Context(), decider.LeaseRequest{Key: "lease", N: 1})
		if ok := i < 2; (err == nil) != ok {
			t.Errorf("lease %d while the store is away: %v, want 2 of 8 for one of 4 nodes", i, err)
		}
	}
	store.Run()
	redistest.Until(t, "the store is back", func() error {
		if v := decide(t, s, "share-new"); v.Step != decider.Exact {
			return fmt.Errorf("%+v, %+v", v, s.StoreStats())
		}
		return nil
	})
	for key, most := range map[string]int{"share": 35, "share-new": 30, "allow": 39} { // the store has forgotten the first 20
		if n := drain(t, s, key); n > most {
			t.Errorf("%d tokens of %s are left after that, want at most %d", n, key, most)
		}
	}
	redistest.Until(t, "both changes are told", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(reported) != 2 || reported[0] == nil || reported[1] != nil {
			return fmt.Errorf("%v", reported)
		}
		return nil
	})
}

// Nodes count each other in the store, and divide the limits by their number.
func TestSharedCounts(t *testing.T) {
	store := redistest.Start(t, "redis-server")
	nodes := sharedFleet(t, 3, ladderRules, "redis://"+store.Addr, patient())
	redistest.Until(t, "the last node counts three", func() error {
		if n := nodes[2].StoreStats().Instances; n != 3 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// unsent answers calls as a store that is away.
func unsent(_ context.Context, calls []*redislink.Call, _ bool) []redislink.Answer {
	all := make([]redislink.Answer, len(calls))
	for i := range all {
		all[i].Err = redislink.ErrAway
	}
	return all
}

// Rules that a Cluster cannot decide in one call are refused when they are loaded.
func TestSharedSlots(t *testing.T) {
	for rules, want := range map[string]bool{
		"apply: all\nrules:\n  - {name: a, glob: '*', rate: 1/s}\n  - {name: b, glob: '*', rate: 1/s, per: rule}\n":        false,
		"apply: first\nrules:\n  - {name: a, glob: 'x*', rate: 1/s}\n  - {name: b, glob: '*', rate: 1/s, per: rule}\n":     true,
		"apply: all\nrules:\n  - {name: a, glob: '*', rate: 1/s}\n  - {name: b, glob: '*', rate: 1/m, algorithm: fixed}\n": true,
	} {
		parsed, err := config.Parse("rules.yaml", []byte(rules))
		if err != nil {
			t.Fatal(err)
		}
		cfg := server.StoreConfig{}
		cfg.Link.Cluster = true
		cfg.Link.Send = unsent
		s, err := server.NewShared(server.Config{Rules: parsed}, cfg)
		if err == nil {
			s.Disconnect()
		}
		if (err == nil) != want {
			t.Errorf("%s%v: want it to be allowed: %v", rules, err, want)
		}
	}
}

// A lease in a store has a record if it is returned where it was granted, and so has each request that gets none.
func TestASharedLeaseHasARecord(t *testing.T) {
	rec, err := recording.New(recording.Config{})
	must(t, err)
	client, err := redisstore.Open("redis://" + redistest.Start(t, "redis-server").Addr)
	must(t, err)
	defer func() { _ = client.Close() }()
	parsed, err := config.Parse("rules.yaml", []byte("rules:\n  - {name: jobs, glob: '*', concurrency: {limit: 2, ttl: 30s, queue: 1, max_wait: 10s}}\n"))
	must(t, err)
	s, err := server.NewShared(server.Config{Rules: parsed, Recorder: rec}, server.StoreConfig{Link: client.Link(time.Second)})
	must(t, err)
	defer s.Disconnect()
	ask := func(ctx context.Context, wait bool) (decider.Lease, error) {
		return s.Acquire(ctx, decider.LeaseRequest{Key: "k", N: 2, Wait: wait})
	}
	first, err := ask(t.Context(), false)
	must(t, err)
	if _, err := ask(t.Context(), false); err == nil {
		t.Fatal("the limit is 2")
	}
	gone, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer leave()
	if _, err := ask(gone, true); err != context.DeadlineExceeded {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = s.Return(context.Background(), "k", first.ID, weir.Dropped) })
	second, err := ask(t.Context(), true)
	must(t, err)
	time.Sleep(10 * time.Millisecond)
	must(t, s.Return(t.Context(), "k", second.ID, weir.Success))
	got, names := recorded(t, rec)
	want := []struct {
		outcome       recording.Outcome
		waited, lasts time.Duration // at least
		inflight      int
	}{
		{recording.Ended(weir.Dropped), 0, 60 * time.Millisecond, 2},
		{recording.Rejected(weir.OverLimit), 0, 0, 2},
		{recording.Cancelled, 15 * time.Millisecond, 0, 2},
		{recording.Ended(weir.Success), 40 * time.Millisecond, 9 * time.Millisecond, 2},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		r := got[i]
		if r.Outcome != w.outcome || r.Wait < w.waited || r.Wait > r.End-r.Intended || r.Response() < w.lasts || r.Inflight != w.inflight || names[r.Class] != "jobs" {
			t.Errorf("%d: %+v: want %+v", i, r, w)
		}
	}
}
