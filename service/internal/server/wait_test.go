package server_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// queued is a rule with a queue of a given size.
func queued(q config.Quota, queue int) config.Rule {
	r := one("r", q)
	r.Queue = &queue
	return r
}

// slow is one token in each second.
func slow(a config.Algorithm) config.Quota { return quota(1, time.Second, a) }

func TestWhoIsRefusedAtEntry(t *testing.T) {
	for _, tt := range []struct {
		rule    string
		change  func(*config.Rule)
		most    int           // Config.MaxWaiting
		timeout time.Duration // of the caller
		req     decider.Request
		want    weir.Reason
		eta     time.Duration
	}{
		{"of all keys together", func(r *config.Rule) {}, 2, 0, decider.Request{N: 1}, weir.QueueFull, 3 * time.Second},
		{"its own queue is no longer than allowed", func(r *config.Rule) { r.Queue = ptr(2) }, 0, 0, decider.Request{N: 1, OwnQueue: true, Queue: 99}, 0, 0},
		{"it may wait", func(r *config.Rule) {}, 0, 3 * time.Second, decider.Request{N: 1}, 0, 0},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := queued(slow(""), 10)
				tt.change(&r)
				d := newDesk(t, server.Config{MaxWaiting: tt.most, MaxQueue: 3}, r)
				d.allows("a", 1, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 2 {
					d.queue(ctx, decider.Request{Key: "a", N: 1})
				}
				if tt.timeout > 0 {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, tt.timeout)
					defer stop()
				}
				tt.req.Key = "a"
				v, err := d.wait(ctx, tt.req)
				if err != nil || v.Reason != tt.want || v.RetryAfter != tt.eta || v.OK != (tt.want == 0) {
					t.Errorf("%+v, %v", v, err)
				}
				if tt.want == 0 {
					check(t, "waited", v.Waited, 3*time.Second)
					check(t, "place", v.Place, 2)
				}
			})
		})
	}
}

func TestATurnByTheDeadlineCounts(t *testing.T) {
	for range 20 { // which timer is heard first is a matter of chance
		bubble(t, func(t *testing.T) {
			d := newDesk(t, server.Config{}, queued(slow(""), 10))
			d.allows("a", 1, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if v, err := d.wait(ctx, decider.Request{Key: "a", N: 1}); err != nil || !v.OK {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestReloadKeepsTheOrderOfTheLine, also of requests that are decided again because
// the rule may not count for them any more: they stay before later ones.
func TestReloadKeepsTheOrderOfTheLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const before, after = 50, 5
		r := queued(quota(1, time.Second, ""), before+after)
		d := newDesk(t, server.Config{}, r)
		d.allows("a", 1, 1)
		var mu sync.Mutex
		var turns []int
		var all sync.WaitGroup
		come := func(i int) {
			all.Go(func() {
				if v, err := d.wait(t.Context(), decider.Request{Key: "a", N: 1}); err != nil || !v.OK {
					t.Errorf("%d: %+v, %v", i, v, err)
				}
				mu.Lock()
				defer mu.Unlock()
				turns = append(turns, i)
			})
			synctest.Wait()
		}
		for i := range before {
			come(i)
		}
		r.Glob = "a*"
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{r}}))
		for i := range after {
			come(before + i)
		}
		all.Wait()
		if len(turns) != before+after || !slices.IsSorted(turns) {
			t.Error("turns:", turns)
		}
	})
}

// TestAThousandInLine: a thousand requests wait for one key, three in ten leave at
// random instants. The others are granted in order of arrival, no sooner than the
// rate allows and, because no request delays the queue, no later. Requests that left
// are granted nothing; no token is lost.
func TestAThousandInLine(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed} {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				const waiters, every = 1000, 10 * time.Millisecond
				q := quota(1, every, a)
				d := newDesk(t, server.Config{}, queued(q, waiters))
				d.allows("a", 1, 1)
				start := time.Now()
				type grant struct {
					who int
					at  time.Duration
				}
				var mu sync.Mutex
				var grants []grant
				left := 0
				rng := rand.New(rand.NewPCG(1, 2))
				var all sync.WaitGroup
				for i := range waiters {
					ctx, leave := context.WithCancel(t.Context())
					if rng.IntN(10) < 3 {
						time.AfterFunc(time.Duration(rng.Int64N(int64(8*time.Second))), leave)
					}
					all.Go(func() {
						defer leave()
						v, err := d.wait(ctx, decider.Request{Key: "a", N: 1})
						mu.Lock()
						defer mu.Unlock()
						switch {
						case err == nil && v.OK:
							grants = append(grants, grant{i, time.Since(start)})
						case errors.Is(err, context.Canceled):
							left++
						default:
							t.Errorf("waiter %d: %+v, %v", i, v, err)
						}
					})
					synctest.Wait() // one comes after the other
				}
				all.Wait()
				for i, g := range grants {
					if i > 0 && g.who < grants[i-1].who {
						t.Fatalf("waiter %d was granted after %d", g.who, grants[i-1].who)
					}
					if want := time.Duration(i+1) * every; g.at != want {
						t.Fatalf("grant %d came at %v, want %v", i, g.at, want)
					}
				}
				if left < 100 || len(grants)+left != waiters {
					t.Errorf("%d granted, %d left", len(grants), left)
				}
				st := d.Stats().Rules[0]
				check(t, "counted as allowed", st.Allowed, uint64(len(grants)+1))
				check(t, "counted as having left", st.Cancelled, uint64(left))
				check(t, "waiting", d.Waiting(), 0)
			})
		})
	}
}
