package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// An office is a desk that keeps a record of the requests for leases.
type office struct {
	desk
	start time.Time

	mu   sync.Mutex // guards what follows
	asks []*ask     // in order of arrival
	held []decider.Lease
}

type ask struct {
	key       string
	n         int
	wait      bool
	is        string
	end       time.Duration // from start; 0 while it waits
	granted   bool
	cancelled context.CancelFunc
}

// acquire asks for a lease.
func (o *office) acquire(key string, n int, wait bool) {
	ctx, cancel := context.WithCancel(o.t.Context())
	a := &ask{key: key, n: n, wait: wait, cancelled: cancel}
	o.mu.Lock()
	o.asks = append(o.asks, a)
	o.mu.Unlock()
	l, err := o.Acquire(ctx, decider.LeaseRequest{Key: key, N: n, Wait: wait})
	o.mu.Lock()
	defer o.mu.Unlock()
	a.end, a.granted, a.is = time.Since(o.start), err == nil, fmt.Sprint(err)
	if err == nil {
		o.held = append(o.held, l)
	}
}

// giveBack returns some lease.
func (o *office) giveBack(rng *rand.Rand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.held) == 0 {
		return
	}
	i, last := rng.IntN(len(o.held)), len(o.held)-1
	l := o.held[i]
	o.held[i], o.held = o.held[last], o.held[:last]
	must(o.t, o.Return(l.Key, l.ID, weir.Success))
}

// leave cancels some request.
func (o *office) leave(rng *rand.Rand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.asks) > 0 {
		o.asks[rng.IntN(len(o.asks))].cancelled()
	}
}

// inOrder checks that no request got a lease while an earlier one for its key waited.
func (o *office) inOrder() {
	for i, late := range o.asks {
		for _, early := range o.asks[:i] {
			if late.granted && early.wait && early.key == late.key && early.end > late.end {
				o.t.Errorf("key %q: a request is granted after %v; an earlier one ends after %v: %v", late.key, late.end, early.end, early.is)
			}
		}
	}
}

// Whatever reloads and callers do, leases of a key are granted in the order in which they
// were first asked for, and newcomers come last.
func TestReloadKeepsTheOrderOfLeases(t *testing.T) { orderOfLeases(t, 12) }

func orderOfLeases(t *testing.T, seeds uint64) {
	for seed := range seeds {
		bubble(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			o := &office{start: time.Now()}
			rules := func() (all []config.Rule) {
				globs := []string{"*a*", "*b*", "*", "a*", "*c"}
				for _, i := range rng.Perm(len(globs))[:1+rng.IntN(len(globs))] {
					r := config.Rule{Name: fmt.Sprint("rule", i), Glob: globs[i], Per: config.PerRule, Concurrency: &config.Concurrency{
						Limit: config.Limit(1 + rng.IntN(4)), TTL: 100 * time.Hour, MaxWait: time.Duration(rng.IntN(3)) * time.Second,
					}}
					if rng.IntN(6) == 0 {
						r.Mode = config.Shadow
					}
					if rng.IntN(6) == 0 {
						r.Per = ""
					}
					all = append(all, r)
				}
				return all
			}
			o.desk = newDesk(t, underAll(rules()...))
			var all sync.WaitGroup
			key := func() string { return []string{"a", "b", "ab", "abc"}[rng.IntN(4)] }
			for range 400 {
				time.Sleep(time.Duration(1 + rng.Int64N(int64(20*time.Millisecond))))
				switch what := rng.IntN(20); {
				case what < 11:
					k, n := key(), 1+rng.IntN(2)
					all.Go(func() { o.acquire(k, n, true) })
				case what < 12:
					o.leave(rng)
				case what < 18:
					o.giveBack(rng)
				default:
					apply := config.All
					if rng.IntN(4) == 0 {
						apply = config.First
					}
					all.Go(func() { o.acquire("ab", 1, false) })
					o.reload(apply, rules()...)
					for range 4 {
						o.acquire(key(), 1, false)
					}
				}
				if rng.IntN(4) > 0 {
					synctest.Wait()
				}
			}
			for synctest.Wait(); o.Waiting() > 0; synctest.Wait() {
				time.Sleep(time.Millisecond)
				o.giveBack(rng)
			}
			all.Wait()
			o.inOrder()
			for len(o.held) > 0 {
				o.giveBack(rng)
			}
			for _, r := range o.Stats().Rules {
				check(t, r.Rule.Name+": held and waiting", r.Leases.Held+r.Leases.Waiting, 0)
			}
		})
	}
}

// Requests that wait elsewhere come before requests that arrive with the reload or after
// it, and keep their order.
func TestReloadLeasesBeforeNewcomers(t *testing.T) {
	for range 10 {
		bubble(t, func(t *testing.T) {
			const waiters, free = 20, 8
			old := func(i int) config.Rule { return single(fmt.Sprint("old", i), fmt.Sprint(i)) }
			d := newDesk(t, server.Config{}, old(0), old(1), old(2))
			d.leases("0", 1, 1)
			d.leases("1", 1, 1)
			d.leases("2", 1, 1)
			var waits []<-chan string
			for i := range waiters {
				waits = append(waits, d.line(t.Context(), fmt.Sprint(i%3), 1))
			}
			next := single("next", "*")
			next.Concurrency.Limit = free
			newcomer := make(chan error, 1)
			go func() {
				_, err := d.Acquire(t.Context(), decider.LeaseRequest{Key: "0", N: 1, Wait: true})
				newcomer <- err
			}()
			d.reload(config.First, next)
			check(t, "a newcomer that does not wait", d.lease("1", 1).ID, "")
			synctest.Wait()
			for i, w := range waits {
				want := still
				if i < free {
					want = "granted after 0s"
				}
				check(t, fmt.Sprint("waiter ", i), ended(w), want)
			}
			check(t, "newcomers that are granted", len(newcomer), 0)
		})
	}
}

// A request that waits for several leases keeps the units of the rules that stay, and its
// place where it waits.
func TestReloadMovesWaitersOfSeveralLeases(t *testing.T) {
	first, second, third := single("first", "*1*"), single("second", "*2*"), single("third", "*3*")
	wider, narrower, trial := third, first, first
	wider.Glob, narrower.Glob, trial.Mode = "*", "1", config.Shadow
	for _, tt := range []struct {
		rule        string
		after       []config.Rule
		held        int    // units of the first rule
		both, later string // once the unit of the second rule is free
	}{
		{"one more, which is busy", []config.Rule{wider, first, second}, 1, still, still},
		{"another order", []config.Rule{third, second, first}, 1, "granted after 0s", still},
		{"the first is gone", []config.Rule{second, third}, 0, "granted after 0s", still},
		{"the first is for other keys", []config.Rule{narrower, second, third}, 0, "granted after 0s", still},
		{"the first is on trial", []config.Rule{trial, second, third}, 0, "granted after 0s", still},
		{"the second is gone", []config.Rule{first, third}, 1, "granted after 0s", decider.ErrNoLeasing.Error() + " after 0s"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, underAll(first, second, third))
				d.lease("3", 1)
				l := d.lease("2", 1)
				both := d.line(t.Context(), "12", 1)
				later := d.line(t.Context(), "2", 1)
				d.rules(tt.after...)
				held := 0
				for _, r := range d.Stats().Rules {
					if r.Rule.Name == "first" {
						held = r.Leases.Held
					}
				}
				check(t, "units of the first rule", held, tt.held)
				must(t, d.Return("2", l.ID, weir.Success))
				check(t, "both", ended(both), tt.both)
				check(t, "later", ended(later), tt.later)
			})
		})
	}
}

// A request that has moved can leave, run out of time, and be dismissed, like any other; the
// requests behind it take its place. It goes on to wait while the server closes.
func TestMovedWaitersEnd(t *testing.T) {
	jobs, other, three, impatient := single("jobs", "*"), single("other", "*"), single("other", "*"), single("other", "*")
	three.Concurrency.Limit, impatient.Concurrency.MaxWait = 3, time.Minute
	const granted, canceled = "granted after 0s", "context canceled after 0s"
	for _, tt := range []struct {
		rule          string
		do            func(d desk, leave context.CancelFunc)
		second, third string
	}{
		{"it leaves as it moves", func(d desk, leave context.CancelFunc) { d.reload("", other); leave() }, canceled, still},
		{"it leaves before", func(d desk, leave context.CancelFunc) { leave(); d.reload("", other) }, canceled, still},
		{"it moves there and back", func(d desk, leave context.CancelFunc) {
			for range 5 {
				d.reload("", other)
				d.reload("", jobs)
			}
			d.reload("", other)
		}, still, still},
		{"there are two leases more", func(d desk, leave context.CancelFunc) { d.reload("", other); d.reload("", three) }, granted, granted},
		{"the server closes before", func(d desk, leave context.CancelFunc) { d.Close(false); d.reload("", three) }, granted, granted},
		{"the server closes after", func(d desk, leave context.CancelFunc) { d.reload("", other); d.Close(false); d.reload("", three) }, granted, granted},
		{"it is dismissed", func(d desk, leave context.CancelFunc) { d.reload("", other); d.Close(true) }, "rejected: closed after 0s", "rejected: closed after 0s"},
		{"it has waited for too long", func(d desk, leave context.CancelFunc) {
			time.Sleep(50 * time.Second)
			d.reload("", impatient)
			time.Sleep(10 * time.Second)
		}, "rejected: overdue after 1m0s", "rejected: overdue after 1m0s"},
		{"it may wait for longer now", func(d desk, leave context.CancelFunc) {
			d.reload("", impatient)
			time.Sleep(30 * time.Second)
			d.reload("", other)
			time.Sleep(time.Hour - 31*time.Second)
		}, still, still},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, jobs)
				d.leases("x", 1, 1)
				ctx, leave := context.WithCancel(t.Context())
				first := d.line(t.Context(), "a", 1)
				second, third := d.line(ctx, "b", 1), d.line(t.Context(), "c", 1)
				tt.do(d, leave)
				if ended(first) == still {
					t.Error("the first has no lease of the other rule")
				}
				check(t, "second", ended(second), tt.second)
				check(t, "third", ended(third), tt.third)
				leave()
				d.reload("", three)
				synctest.Wait()
				check(t, "waiting", d.Waiting(), 0)
			})
		})
	}
}
