package server_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// waits waits for a token of a key.
func (z *zone) waits(ctx context.Context, key string, n int, onWait func()) (v decider.Verdict, err error) {
	err = z.Wait(ctx, &decider.Request{Key: key, N: n, OnWait: onWait}, &v)
	return v, err
}

// assignAll asks for all tokens of a key until the whole limit is assigned, and uses them.
func (z *zone) assignAll(key string, rate int) {
	z.t.Helper()
	for range 100 * rate {
		z.take(key, 1)
		time.Sleep(time.Second / time.Duration(2*rate))
	}
	for z.take(key, 1).OK {
	}
	for !z.take(key, 1).OK { // the next token comes a whole interval later
		time.Sleep(time.Millisecond)
	}
}

// Requests wait in the order of their arrival, at the rate of the assignment. One that leaves
// delays no other.
func TestTierWaitsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: all, glob: "*", rate: 10/s, queue: 10}]`, server.TierConfig{})
		z.assignAll("k", 10)
		began := time.Now()
		var all sync.WaitGroup
		var order []int
		var waited atomic.Int64
		var mu sync.Mutex // guards order
		leaving, leave := context.WithCancel(t.Context())
		for i := range 6 {
			ctx := t.Context()
			if i == 2 {
				ctx = leaving
			}
			all.Go(func() {
				v, err := z.waits(ctx, "k", 1, func() { waited.Add(1) })
				if i == 2 {
					if err != context.Canceled {
						t.Errorf("the one that leaves: %+v, %v", v, err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil || !v.OK || v.Step != decider.Assigned || v.Waited < time.Duration(len(order))*100*time.Millisecond {
					t.Errorf("%d: %+v, %v after %v", i, v, err, time.Since(began))
				}
				order = append(order, i)
			})
			time.Sleep(time.Millisecond)
		}
		leave()
		all.Wait()
		if took := time.Since(began); took > 550*time.Millisecond || took < 400*time.Millisecond {
			t.Errorf("5 tokens took %v", took)
		}
		for i, want := range []int{0, 1, 3, 4, 5} {
			if order[i] != want {
				t.Errorf("the order is %v", order)
				break
			}
		}
		if waited.Load() != 6 || z.Stats().Rules[0].Cancelled != 1 || z.Waiting() != 0 {
			t.Errorf("%d have waited, %d cancelled, %d wait", waited.Load(), z.Stats().Rules[0].Cancelled, z.Waiting())
		}
	})
}

// The queue, the rule and the deadline bound the wait.
func TestTierWaitBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, z := newPair(t, `rules: [{name: short, key: short, rate: 10/s, queue: 3}, {name: brief, key: brief, rate: 10/s, max_wait: 250ms}]`, server.TierConfig{})
		for key, want := range map[string]weir.Reason{"short": weir.QueueFull, "brief": weir.OverRate} {
			z.assignAll(key, 10)
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					if v, err := z.waits(t.Context(), key, 1, nil); err != nil || !v.OK {
						t.Errorf("%s: %+v, %v", key, v, err)
					}
				})
			}
			time.Sleep(time.Millisecond)
			v, err := z.waits(t.Context(), key, 3, nil)
			if key == "short" { // the bound is in requests of this cost
				v, err = z.waits(t.Context(), key, 9, nil)
				if err != nil || !v.OK {
					t.Errorf("9 tokens behind 2: %+v, %v", v, err)
				}
				all.Go(func() { _, _ = z.waits(t.Context(), key, 3, nil) })
				time.Sleep(time.Millisecond)
				v, err = z.waits(t.Context(), key, 1, nil)
			}
			if err != nil || v.OK || v.Reason != want || v.RetryAfter <= 0 {
				t.Errorf("%s: %+v, %v, want %v", key, v, err, want)
			}
			all.Wait()
		}
		z.assignAll("brief", 10)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer stop()
		if v, err := z.waits(ctx, "brief", 2, nil); err != nil || v.OK || v.Reason != weir.TooLate {
			t.Errorf("a deadline before its turn: %+v, %v", v, err)
		}
	})
}

// The true cost of a grant is settled where it was given.
func TestTierSettles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up, z := newPair(t, `rules: [{name: fast, key: fast, rate: 10/s, burst: 100, max_debt: 50}, {name: slow, key: slow, rate: 10/h}]`, server.TierConfig{Leaves: 2})
		z.assignAll("fast", 10)
		time.Sleep(10 * time.Second)
		grant := func(key string, n int) string {
			t.Helper()
			var v decider.Verdict
			if err := z.Decide(t.Context(), &decider.Request{Key: key, N: n, WantID: true}, &v); err != nil || !v.OK {
				t.Fatalf("%s: %+v, %v", key, v, err)
			}
			return string(z.AppendGrantID(nil, v.Grant, key))
		}
		left := func(key string) int {
			v := z.take(key, 0)
			return v.Answers[0].Remaining
		}
		for _, c := range []struct {
			key                 string
			n, cost, left, want int
		}{{"fast", 50, 10, 90, 10}, {"fast", 10, 30, 60, 30}, {"slow", 5, 2, 8, 2}, {"slow", 2, 4, 4, 4}} {
			before := left(c.key)
			id := grant(c.key, c.n)
			done, err := z.Settle(t.Context(), c.key, id, c.cost)
			if err != nil || done.Was != c.n || done.Charged != c.want || !within(left(c.key), float64(before-c.want), 0.1) {
				t.Errorf("%+v: %+v, %v, left %d of %d", c, done, err, left(c.key), before)
			}
			if _, err := z.Settle(t.Context(), c.key, id, c.cost); err != decider.ErrNoGrant {
				t.Errorf("%+v: settled again: %v", c, err)
			}
		}
		if v := up.ask("slow", 0); v.Answers[0].Remaining != 4 {
			t.Errorf("the upstream has %d left, want 4", v.Answers[0].Remaining)
		}
		if _, err := z.Settle(t.Context(), "fast", "no grant", 1); err != decider.ErrNoGrant {
			t.Errorf("no grant: %v", err)
		}
		z.wire.cut.Store(true)
		for range 3 {
			z.take("slow", 1)
		}
		id := grant("slow", 1)
		if done, err := z.Settle(t.Context(), "slow", id, 0); err != nil || done.Charged != 0 {
			t.Errorf("a grant by the share: %+v, %v", done, err)
		}
		if _, err := z.Settle(t.Context(), "slow", "another", 0); err == nil || err == decider.ErrNoGrant {
			t.Errorf("a grant of the upstream, while that is away: %v", err)
		}
	})
}
