package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// reload puts other rules into force.
func (d desk) reload(apply config.Apply, rules ...config.Rule) {
	d.t.Helper()
	must(d.t, d.Reload(&config.Rules{Apply: apply, Rules: rules}))
}

// oneBucket returns a rule with one bucket of n tokens in a period, for the keys of a glob.
func oneBucket(name, glob string, n int, period time.Duration) config.Rule {
	return config.Rule{Name: name, Glob: glob, Per: config.PerRule, Quota: quota(n, period, "")}
}

// Requests that are decided again come before requests that arrive with the reload or
// after it, and keep their order.
func TestReloadBeforeNewcomers(t *testing.T) {
	for range 10 {
		bubble(t, func(t *testing.T) {
			const waiters, burst = 50, 20
			d := newDesk(t, server.Config{}, oneBucket("old", "*", 1, time.Hour))
			d.allows("a", 1, 1)
			var mu sync.Mutex
			var turns []int
			var all sync.WaitGroup
			for i := range waiters {
				all.Go(func() {
					if v, err := d.wait(t.Context(), decider.Request{Key: fmt.Sprint(i % 7), N: 1}); err != nil || !v.OK {
						t.Errorf("%d: %v, %v", i, v.Reason, err)
					}
					mu.Lock()
					defer mu.Unlock()
					turns = append(turns, i)
				})
				synctest.Wait()
			}
			next := oneBucket("next", "*", burst, time.Second)
			all.Go(func() { d.allows("b", 0, 1000) })
			d.reload(config.First, next)
			d.allows("b", 0, 100)
			all.Wait()
			slices.Sort(turns[:burst]) // they got their tokens at the same instant
			if len(turns) != waiters || !slices.IsSorted(turns) {
				t.Error("turns:", turns)
			}
			check(t, "waiting", d.Waiting(), 0)
		})
	}
}

// A newcomer does not take the place of a request that waits already, however few may
// wait.
func TestReloadFullQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := queued(quota(1, time.Minute, ""), 3)
		d := newDesk(t, server.Config{MaxWaiting: 3}, r)
		d.allows("a", 1, 1)
		var waits []<-chan string
		for range 3 {
			waits = append(waits, d.queue(t.Context(), decider.Request{Key: "a", N: 1}))
		}
		r.Name, r.Queue = "other", ptr(2) // its bucket is full
		d.reload("", r)
		check(t, "newcomer", <-d.queue(t.Context(), decider.Request{Key: "a", N: 1}), "queue_full after 0s")
		for i, want := range []string{"0s", "1m0s", "2m0s"} {
			check(t, fmt.Sprint("waiter ", i), <-waits[i], "granted after "+want)
		}
	})
}

// Whatever reloads and callers do, each request ends, and each token of a rule that is
// never refilled is granted or still there.
func TestReloadStorm(t *testing.T) { reloadStorm(t, 3) }

func reloadStorm(t *testing.T, seeds uint64) {
	for seed := range seeds {
		bubble(t, func(t *testing.T) {
			const tokens = 150
			rng := rand.New(rand.NewPCG(seed, 2))
			keep, a, total := oneBucket("keep", "*", tokens, 1000*time.Hour), one("a", quota(2, time.Second, "")), oneBucket("total", "*", 5, time.Second)
			again := a
			again.Name, again.Algorithm = "again", config.Fixed
			shadow := again
			shadow.Mode = config.Shadow
			some := keep
			some.Glob = "b"
			versions := [][]config.Rule{{keep, a}, {a, keep}, {keep}, {again, some}, {some, again}, {again, a, keep}, {shadow, keep, a}, {total, keep, again}}
			d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Rules: versions[0]}})
			var all sync.WaitGroup
			var granted atomic.Int64
			for range 300 {
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
				patience, key := time.Duration(rng.Int64N(int64(3*time.Second))), string("abc"[rng.IntN(3)])
				leaves := rng.IntN(2) == 0
				all.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if leaves {
						ctx, cancel = context.WithCancel(t.Context())
						defer time.AfterFunc(patience, cancel).Stop()
					}
					v, err := d.wait(ctx, decider.Request{Key: key, N: 1})
					if err == nil && v.OK && slices.ContainsFunc(v.Answers, func(a decider.Answer) bool { return a.Rule.Name == "keep" }) {
						granted.Add(1)
					}
				})
				for range max(rng.IntN(8)-4, 0) {
					rules := slices.Clone(versions[rng.IntN(len(versions))])
					for i := range rules {
						rules[i].Queue, rules[i].MaxWait = ptr(rng.IntN(50)), time.Duration(rng.IntN(3))*time.Second
					}
					d.reload(config.All, rules...)
				}
			}
			all.Wait()
			check(t, "waiting", d.Waiting(), 0)
			for _, r := range d.Stats().Rules {
				check(t, r.Rule.Name+": waiting", r.Waiting, 0)
			}
			d.reload(config.All, keep)
			check(t, "tokens granted and left", int(granted.Load())+d.Explain("a").Rules[0].Remaining, tokens)
		})
	}
}
