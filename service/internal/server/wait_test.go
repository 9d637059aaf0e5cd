package server_test

import (
	"context"
	"errors"
	"fmt"
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

func TestTurnsComeInOrder(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed} {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, queued(slow(a), 10))
				d.allows("a", 1, 1)
				first := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
				second := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
				check(t, "waiting", d.Waiting(), 2)
				v := d.ask("a", 1)
				if v.OK || v.RetryAfter != 3*time.Second {
					t.Errorf("who does not wait comes after those who do: %+v", v)
				}
				d.allows("b", 1, 1) // another key has nothing to do with it
				check(t, "first", <-first, "granted after 1s")
				check(t, "second", <-second, "granted after 2s")
				check(t, "waiting", d.Waiting(), 0)
				d.allows("a", 0, 1) // nothing is left over
				time.Sleep(time.Second)
				d.allows("a", 1, 2)
			})
		})
	}
}

func TestWindowsLetThoseInLineInWhenTheyBegin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, queued(quota(3, time.Minute, config.Fixed), 10))
		d.allows("a", 3, 4)
		time.Sleep(20 * time.Second)
		var ended []<-chan string
		for range 5 {
			ended = append(ended, d.queue(t.Context(), decider.Request{Key: "a", N: 1}))
		}
		for i, want := range []string{"40s", "40s", "40s", "1m40s", "1m40s"} {
			check(t, fmt.Sprint("waiter ", i), <-ended[i], "granted after "+want)
		}
	})
}

func TestLargeRequestsKeepTheirPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, queued(quota(4, 4*time.Second, ""), 10))
		d.allows("a", 4, 4)
		large := d.queue(t.Context(), decider.Request{Key: "a", N: 4})
		small := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
		check(t, "large", <-large, "granted after 4s")
		check(t, "small", <-small, "granted after 5s")
	})
}

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
		{"nobody may wait", func(r *config.Rule) { r.Queue = ptr(0) }, 0, 0, decider.Request{N: 1}, weir.QueueFull, 3 * time.Second},
		{"as many wait as may", func(r *config.Rule) { r.Queue = ptr(2) }, 0, 0, decider.Request{N: 1}, weir.QueueFull, 3 * time.Second},
		{"of all keys together", func(r *config.Rule) {}, 2, 0, decider.Request{N: 1}, weir.QueueFull, 3 * time.Second},
		{"its turn comes after its deadline", func(r *config.Rule) {}, 0, 2900 * time.Millisecond, decider.Request{N: 1}, weir.TooLate, 3 * time.Second},
		{"its turn comes after MaxWait", func(r *config.Rule) { r.MaxWait = 2900 * time.Millisecond }, 0, 0, decider.Request{N: 1}, weir.OverRate, 3 * time.Second},
		{"it costs more than there ever is", func(r *config.Rule) {}, 0, 0, decider.Request{N: 2}, weir.OverBurst, weir.Never},
		{"its own queue is shorter", func(r *config.Rule) {}, 0, 0, decider.Request{N: 1, OwnQueue: true, Queue: 2}, weir.QueueFull, 3 * time.Second},
		{"its own queue is none", func(r *config.Rule) {}, 0, 0, decider.Request{N: 1, OwnQueue: true}, weir.QueueFull, 3 * time.Second},
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
				if r.Queue != nil && *r.Queue == 0 { // no request waits: two seconds are to be made up for
					tt.eta = time.Second
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

func TestWhoLeavesIsForgotten(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed} {
		t.Run(string(a), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, queued(slow(a), 10))
				d.allows("a", 1, 1)
				ctx, leave := context.WithCancel(t.Context())
				first := d.queue(ctx, decider.Request{Key: "a", N: 1})
				second := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
				time.Sleep(500 * time.Millisecond)
				leave()
				check(t, "first", <-first, context.Canceled.Error())
				check(t, "second moves up", <-second, "granted after 1s")
				check(t, "cancelled", d.Stats().Rules[0].Cancelled, 1)
			})
		})
	}
}

func TestWhoHasLeftTakesNothingFromEarlierRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		each, total := one("each", quota(5, time.Hour, "")), queued(quota(1, time.Hour, ""), 10)
		total.Name, total.Per = "total", config.PerRule
		d := newDesk(t, server.Config{Rules: &config.Rules{Apply: config.All, Rules: []config.Rule{each, total}}})
		d.allows("a", 1, 1)
		ctx, leave := context.WithCancel(t.Context())
		ended := d.queue(ctx, decider.Request{Key: "a", N: 1})
		leave()
		check(t, "ended", <-ended, context.Canceled.Error())
		check(t, "left of each", d.Explain("a").Rules[0].Remaining, 4)
	})
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

func TestReloadWhileSomeWait(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		change func(*config.Rules)
		want   [2]string
	}{
		{"the same rules", func(r *config.Rules) {}, [2]string{"granted after 10s", "granted after 20s"}},
		{"a faster rate", func(r *config.Rules) { r.Rules[0].Rate.Period = 2 * time.Second }, [2]string{"granted after 2.8s", "granted after 4.8s"}},
		{"a slower one", func(r *config.Rules) { r.Rules[0].Rate.Period = 20 * time.Second }, [2]string{"granted after 19s", "granted after 39s"}},
		{"counted otherwise: they begin anew", func(r *config.Rules) { r.Rules[0].Algorithm = config.Fixed }, [2]string{"granted after 1s", "granted after 11s"}},
		{"no rule", func(r *config.Rules) { r.Rules = nil }, [2]string{"granted after 1s", "granted after 1s"}},
		{"nothing any more", func(r *config.Rules) { r.Rules[0].Rate.Count = 0 }, [2]string{"over_burst after 1s", "over_burst after 1s"}},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, queued(quota(1, 10*time.Second, ""), 10))
				d.allows("a", 1, 1)
				first := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
				second := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
				time.Sleep(time.Second)
				next := *d.Rules()
				next.Rules = slices.Clone(next.Rules)
				tt.change(&next)
				must(t, d.Reload(&next))
				check(t, "ended", [2]string{<-first, <-second}, tt.want)
			})
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

// TestWhoIsAskedAgainHasWaited since it came, and its place is that which it had.
func TestWhoIsAskedAgainHasWaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := queued(quota(1, time.Minute, ""), 10)
		d := newDesk(t, server.Config{}, r)
		d.allows("a", 1, 1)
		d.queue(t.Context(), decider.Request{Key: "a", N: 1})
		var v decider.Verdict
		go func() { d.Wait(t.Context(), &decider.Request{Key: "a", N: 1}, &v) }()
		time.Sleep(90 * time.Second)
		r.Glob = "a*"
		must(t, d.Reload(&config.Rules{Rules: []config.Rule{r}}))
		time.Sleep(time.Minute)
		synctest.Wait()
		if !v.OK || v.Waited != 2*time.Minute || v.Place != 1 {
			t.Errorf("%+v", v)
		}
	})
}

func TestClose(t *testing.T) {
	for _, tt := range []struct {
		now  bool
		want string
	}{{false, "granted after 1s"}, {true, "closed after 0s"}} {
		t.Run(fmt.Sprint("now ", tt.now), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, queued(slow(""), 10))
				d.allows("a", 1, 1)
				waiter := d.queue(t.Context(), decider.Request{Key: "a", N: 1})
				d.Close(tt.now)
				check(t, "who waits already", <-waiter, tt.want)
				v, err := d.wait(t.Context(), decider.Request{Key: "a", N: 1})
				if err != nil || v.Reason != weir.Closed || v.RetryAfter != time.Second {
					t.Errorf("who comes now: %+v, %v", v, err)
				}
				d.allows("b", 1, 1)
			})
		})
	}
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
