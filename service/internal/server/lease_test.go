package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// leased is a rule for every key that leases.
func leased(name string, c config.Concurrency) config.Rule {
	return config.Rule{Name: name, Glob: "*", Concurrency: &c}
}

// underAll are rules that all count.
func underAll(rules ...config.Rule) server.Config {
	return server.Config{Rules: &config.Rules{Apply: config.All, Rules: rules}}
}

// lease leases at once, or must not be able to: then the ID is empty.
func (d desk) lease(key string, n int) decider.Lease {
	d.t.Helper()
	l, err := d.Acquire(d.t.Context(), decider.LeaseRequest{Key: key, N: n})
	if err != nil && !errors.Is(err, weir.ErrRejected) {
		d.t.Errorf("%q: %v", key, err)
	}
	return l
}

// leases checks how many of some leases of a unit are granted, and returns their IDs.
func (d desk) leases(key string, want, of int) (ids []string) {
	d.t.Helper()
	for range of {
		if l := d.lease(key, 1); l.ID != "" {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) != want {
		d.t.Errorf("%q: %d of %d leases granted, want %d", key, len(ids), of, want)
	}
	return ids
}

// line starts a request that waits for a lease, as queue does for tokens.
func (d desk) line(ctx context.Context, key string, n int) <-chan string {
	d.t.Helper()
	ended := make(chan string, 1)
	start := time.Now()
	go func() {
		l, err := d.Acquire(ctx, decider.LeaseRequest{Key: key, N: n, Wait: true})
		if err != nil {
			ended <- fmt.Sprintf("%v after %v", err, time.Since(start))
			return
		}
		ended <- fmt.Sprintf("granted after %v", l.Waited)
	}()
	synctest.Wait()
	return ended
}

// inflight returns the state of a key under the i-th of its rules.
func (d desk) inflight(key string, i int) decider.LeaseState {
	d.t.Helper()
	st := d.Explain(key).Rules[i].Lease
	if st == nil {
		d.t.Fatalf("%q: rule %d does not lease", key, i)
	}
	return *st
}

// still tells that a wait has not ended.
const still = "still waiting"

func ended(c <-chan string) string {
	synctest.Wait()
	select {
	case how := <-c:
		return how
	default:
		return still
	}
}

func TestLeaseEndsOnce(t *testing.T) {
	for _, row := range []struct {
		rule string
		end  func(d desk, l decider.Lease) error
		want error
		held int // afterwards
	}{
		{"not by no id", func(d desk, l decider.Lease) error { return d.Return("a", "", weir.Success) }, decider.ErrNoLease, 1},
		{"not by a part of its id", func(d desk, l decider.Lease) error { return d.Return("a", l.ID[:31], weir.Success) }, decider.ErrNoLease, 1},
		{"not by more than its id", func(d desk, l decider.Lease) error { return d.Return("a", l.ID+"0", weir.Success) }, decider.ErrNoLease, 1},
		{"not by an id that is none", func(d desk, l decider.Lease) error { return d.Return("a", l.ID[:31]+"-", weir.Success) }, decider.ErrNoLease, 1},
		{"not after it has run out", func(d desk, l decider.Lease) error {
			time.Sleep(30 * time.Second)
			synctest.Wait()
			d.lease("a", 1)
			return d.Return("a", l.ID, weir.Success)
		}, decider.ErrNoLease, 1},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: 1}))
				check(t, "error", row.end(d, d.lease("a", 1)), row.want)
				check(t, "held", d.inflight("a", 0).Inflight, row.held)
				check(t, "units", d.Stats().Rules[0].Leases.Held, row.held)
			})
		})
	}
}

func TestLeaseRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one := config.Concurrency{Limit: 1, Queue: ptr(1), MaxWait: time.Second}
		refuse := func(why weir.Reason, after time.Duration) *weir.Rejection { return weir.Reject(why, after) }
		for _, row := range []struct {
			rule string
			cfg  server.Config
			c    config.Concurrency
			n    int
			wait bool
			want error
		}{
			{"who asks for more than Auto may find", server.Config{}, config.Concurrency{Max: 5}, 6, false, refuse(weir.OverLimit, weir.Never)},
			{"where nobody may wait at all", server.Config{MaxWaiting: -1}, one, 1, true, refuse(weir.QueueFull, 0)},
			{"where as many are held as may be", server.Config{MaxLeases: 1}, config.Concurrency{Limit: 2}, 1, false, refuse(weir.OverLimit, 0)},
		} {
			d := newDesk(t, row.cfg, leased("jobs", row.c))
			d.lease("a", 1)
			_, err := d.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: row.n, Wait: row.wait})
			if err != row.want {
				t.Errorf("%s: %#v, want %#v", row.rule, err, row.want)
			}
			check(t, row.rule+": in flight", d.inflight("a", 0).Inflight, 1)
			check(t, row.rule+": waiting", d.Waiting(), 0)
		}
	})
}

// Under overload, most answers are refusals.
func TestLeaseRefusedForFree(t *testing.T) {
	d := newDesk(t, underAll(leased("each", config.Concurrency{Limit: 2}), leased("other", config.Concurrency{Limit: 1})))
	d.lease("a", 1)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := d.Acquire(ctx, decider.LeaseRequest{Key: "a", N: 2}); err == nil {
			t.Error("granted")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMaxLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{MaxLeases: 3}, leased("jobs", config.Concurrency{Limit: 2}))
		ids := d.leases("a", 2, 2)
		d.leases("b", 1, 5)
		st := d.Stats()
		check(t, "held", st.Leases, 3)
		check(t, "refused", st.LeasesRefused, 4)
		check(t, "in flight", d.inflight("b", 0).Inflight, 1)
		must(t, d.Return("a", ids[0], weir.Success))
		d.leases("b", 1, 5)
	})
}

// All rules with a concurrency count, and a refusal leaves nothing behind.
func TestLeaseUnderSeveralRules(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all := config.Rule{Name: "all", Glob: "*", Per: config.PerRule, Concurrency: &config.Concurrency{Limit: 5, TTL: time.Minute}}
		trial := leased("trial", config.Concurrency{Limit: 1, TTL: time.Second})
		trial.Mode = config.Shadow
		rated := one("rated", quota(1, time.Hour, config.GCRA))
		d := newDesk(t, underAll(rated, trial, leased("each", config.Concurrency{Limit: 3}), all))
		state := func(what, key string, want ...int) {
			t.Helper()
			for i, n := range want {
				check(t, fmt.Sprintf("%s: in flight under rule %d", what, i+1), d.inflight(key, i+1).Inflight, n)
			}
		}
		l := d.lease("a", 2)
		check(t, "TTL: the least, of rules that are in force", l.TTL, 30*time.Second)
		check(t, "limit: that with the least room", l.Limit, 3)
		state("a rule on trial refuses nobody", "a", 0, 2, 2)
		d.leases("a", 1, 2)
		state("the limit of a key is used up", "a", 1, 3, 3)
		l = d.lease("b", 1)
		check(t, "limit: that with the least room", l.Limit, 5)
		check(t, "in flight", l.Inflight, 4)
		if l := d.lease("b", 2); l.ID != "" {
			t.Error("more is leased than all keys may have together")
		}
		state("who is refused holds nothing", "b", 1, 1, 4)
		stats := d.Stats().Rules
		check(t, "let in by the shadow mode alone", stats[1].Leases.Shadowed, 1)
		check(t, "refused by each", stats[2].Leases.Refused[weir.OverLimit], 1)
		check(t, "refused by all", stats[3].Leases.Refused[weir.OverLimit], 1)
		check(t, "keys", stats[2].Leases.Keys, 2)
		check(t, "limits", stats[2].Leases.Limit, 6)
		check(t, "held", stats[3].Leases.Held, 4)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		state("all have run out", "a", 0, 0, 0)
		stats = d.Stats().Rules
		check(t, "keys", stats[2].Leases.Keys, 0)
		check(t, "limits", stats[2].Leases.Limit, 0)
		check(t, "tokens taken by leases", d.Explain("a").Rules[0].Used, 0)
	})
}

// The token of a later lease is greater, whichever key it is of, and also if the
// process was another.
func TestLeaseToken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var last uint64
		for range 3 {
			d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: 100}))
			for i := range 50 {
				l := d.lease(fmt.Sprint(i%3), 1)
				if l.Token <= last || l.Token >= 1<<53 {
					t.Fatalf("token %d after %d", l.Token, last)
				}
				last = l.Token
				must(t, d.Return(l.Key, l.ID, weir.Success))
			}
			next, _ := d.next(server.Config{Rules: d.Rules()}, d.snapshot()) // in no time at all
			if l := next.lease("a", 1); l.Token <= last {
				t.Fatalf("token %d after %d", l.Token, last)
			} else {
				last = l.Token
			}
			time.Sleep(time.Second)
		}
	})
}

// Abandoned work keeps its units until it could have ended, even if no lease of its
// key is held meanwhile.
func TestAbandonedLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: 2, TTL: time.Minute}))
		ids := d.leases("a", 2, 2)
		time.Sleep(10 * time.Second)
		must(t, d.Return("a", ids[0], weir.Success)) // so that is how long work takes
		last := d.lease("a", 1)
		must(t, d.Return("a", ids[1], weir.Ignored))
		time.Sleep(4 * time.Second)
		must(t, d.Return("a", last.ID, outcome.Left))
		check(t, "in flight", d.inflight("a", 0).Inflight, 1)
		check(t, "held", d.Stats().Rules[0].Leases.Held, 0)
		time.Sleep(6*time.Second - 1)
		d.leases("a", 1, 2)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		d.leases("a", 1, 2)
	})
}

// A lease that is free has not been waited for, however long the decision took.
func TestFreeLeaseHasNoWait(t *testing.T) {
	d := newDesk(t, server.Config{}, jobs(1)) // in real time
	for range 100 {
		l := d.lease("a", 1)
		check(t, "wait", l.Waited, 0)
		must(t, d.Return("a", l.ID, weir.Success))
	}
}
