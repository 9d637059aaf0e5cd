package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// The deadline of a request bounds its wait. It is refused at once only if the
// estimated wait is longer.
func TestLeaseTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: 2}))
		ids := d.leases("a", 2, 2)
		within := func(wait time.Duration) <-chan string {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			context.AfterFunc(t.Context(), cancel)
			return d.line(ctx, "a", 1)
		}
		unknown := within(time.Second)
		also := within(time.Second)
		time.Sleep(time.Second)
		check(t, "nothing is known yet", ended(unknown), "context deadline exceeded after 1s")
		check(t, "nothing is known yet", ended(also), "context deadline exceeded after 1s")
		time.Sleep(7 * time.Second)
		must(t, d.Return("a", ids[0], weir.Success)) // leases are held for 8 s: one comes back each 4 s
		d.leases("a", 1, 1)
		first := within(time.Second)
		check(t, "nobody is before it", ended(first), still)
		check(t, "one is before it", ended(within(4*time.Second-1)), "rejected: too_late after 0s")
		second := within(4 * time.Second)
		check(t, "one is before it", ended(second), still)
		_, err := d.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: 1})
		check(t, "who does not wait", err, error(weir.Reject(weir.OverLimit, 12*time.Second)))
		time.Sleep(time.Second)
		check(t, "in vain", ended(first), "context deadline exceeded after 1s")
		time.Sleep(3*time.Second - 1)
		must(t, d.Return("a", ids[1], weir.Success))
		check(t, "in time", ended(second), "granted after 3.999999999s")
		st := d.Stats().Rules[0].Leases
		check(t, "too late", st.Refused[weir.TooLate], 1)
		check(t, "cancelled", st.Cancelled, 3)
	})
}

// A request that has left gets no lease, even if its turn came meanwhile.
func TestLeaseCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: 1}))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Acquire(gone, decider.LeaseRequest{Key: "a", N: 1}); err != context.Canceled {
			t.Errorf("who has left before: %v", err)
		}
		if _, err := d.Acquire(&leaver{Context: t.Context()}, decider.LeaseRequest{Key: "a", N: 1}); err != context.Canceled {
			t.Errorf("who leaves meanwhile: %v", err)
		}
		check(t, "held", d.Stats().Leases, 0)
		for range 100 { // whichever case select chooses
			ctx, cancel := context.WithCancel(t.Context())
			l := d.lease("a", 1)
			first := d.line(ctx, "a", 1)
			second := d.line(t.Context(), "a", 1)
			if err := d.Return("a", l.ID, weir.Success); err != nil {
				t.Fatal(err)
			}
			cancel()
			if how := ended(first); how == "context canceled after 0s" {
				check(t, "who is next", ended(second), "granted after 0s")
			}
			time.Sleep(time.Minute)
			ended(second)
			time.Sleep(time.Minute)
			synctest.Wait()
			check(t, "in flight", d.inflight("a", 0).Inflight, 0)
		}
	})
}

// A leaver is there when it is asked first, and then never again.
type leaver struct {
	context.Context
	asked bool
}

func (l *leaver) Err() error {
	if !l.asked {
		l.asked = true
		return nil
	}
	return context.Canceled
}

// rules puts others into force.
func (d desk) rules(rules ...config.Rule) {
	d.t.Helper()
	must(d.t, d.Reload(&config.Rules{Apply: config.All, Rules: rules}))
	synctest.Wait()
}

func TestReloadLeases(t *testing.T) {
	jobs := func(limit int) config.Rule {
		return leased("jobs", config.Concurrency{Limit: config.Limit(limit), TTL: time.Minute})
	}
	for _, row := range []struct {
		rule     string
		under    []config.Rule
		granted  int // of four that wait behind two
		inflight int
		limit    int
	}{
		{"the same limit", []config.Rule{jobs(2)}, 0, 2, 2},
		{"a limit that grows lets in who waits", []config.Rule{jobs(5)}, 3, 5, 5},
		{"a limit that shrinks takes from nobody", []config.Rule{jobs(1)}, 0, 2, 1},
		{"Auto begins where the limit was", []config.Rule{jobs(0)}, 0, 2, 2},
		{"Auto begins where it may", []config.Rule{leased("jobs", config.Concurrency{Min: 4})}, 2, 4, 4},
		{"a rule with a rate, too", []config.Rule{func() config.Rule {
			r := jobs(3)
			r.Quota = quota(5, time.Second, config.Fixed)
			return r
		}()}, 1, 3, 3},
		{"a rule that is gone, and another", []config.Rule{leased("other", config.Concurrency{Limit: 3})}, 3, 3, 3},
		{"another scope", []config.Rule{func() config.Rule {
			r := jobs(1)
			r.Per = config.PerRule
			return r
		}()}, 1, 1, 1},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, jobs(2))
				ids := d.leases("a", 2, 2)
				var waits []<-chan string
				for range 4 {
					waits = append(waits, d.line(t.Context(), "a", 1))
				}
				d.rules(row.under...)
				granted := 0
				for _, w := range waits {
					if how := ended(w); how == "granted after 0s" {
						granted++
					} else if how != still {
						t.Error(how)
					}
				}
				check(t, "granted", granted, row.granted)
				check(t, "state", d.inflight("a", 0), decider.LeaseState{Limit: row.limit, Inflight: row.inflight, Waiting: 4 - granted})
				check(t, "held", d.Stats().Leases, 2+granted)
				check(t, "limits", d.Stats().Rules[0].Leases.Limit, row.limit)
				for _, id := range ids { // theirs, whatever became of the rule
					_, err := d.Renew("a", id, 0)
					must(t, err)
					must(t, d.Return("a", id, weir.Success))
				}
			})
		})
	}
}

// single is a rule under which all its keys together have one unit.
func single(name, glob string) config.Rule {
	return config.Rule{Name: name, Glob: glob, Per: config.PerRule, Concurrency: &config.Concurrency{Limit: 1, TTL: time.Hour}}
}

func TestReloadWhileHolding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first, second := single("first", "*1*"), single("second", "*2*")
		d := newDesk(t, underAll(first, second))
		l := d.lease("2", 1)
		waits := d.line(t.Context(), "12", 1)
		check(t, "it holds a unit while it waits", d.inflight("1", 0).Inflight, 1)
		first.Glob = "1*3"
		d.rules(first, second)
		check(t, "and gives it back", d.inflight("13", 0).Inflight, 0)
		check(t, "the wait goes on", ended(waits), still)
		must(t, d.Return("2", l.ID, weir.Success))
		check(t, "the wait ends", ended(waits), "granted after 0s")
	})
}

// Two that ask under the same rules never wait for each other, even if the rules
// change their order, or one goes and comes again, just when the first is about
// to stand in line.
func TestReloadBetweenRules(t *testing.T) {
	a, b := single("a", "*a*"), single("b", "*b*")
	rated := b
	rated.Quota, rated.Concurrency = quota(1, time.Hour, ""), nil
	for _, row := range []struct {
		rule        string
		under       []config.Rule
		reloads     [][]config.Rule
		held, other string // a key of the rule that is last, and of the first
	}{
		{"the last goes first", []config.Rule{a, b}, [][]config.Rule{{b, a}}, "b", "a"},
		{"the last goes first, the other way round", []config.Rule{b, a}, [][]config.Rule{{a, b}}, "a", "b"},
		{"the last has only a rate meanwhile", []config.Rule{a, b}, [][]config.Rule{{a, rated}, {b, a}}, "b", "a"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, underAll(row.under...))
				l := d.lease(row.held, 1)
				ready := make(chan struct{})
				first := d.line(late{t.Context(), ready}, "ab", 1)
				for _, rules := range row.reloads {
					d.rules(rules...)
				}
				second := d.line(t.Context(), "ab", 1)
				close(ready)
				synctest.Wait()
				must(t, d.Return(row.held, l.ID, weir.Success))
				time.Sleep(2 * time.Hour)
				for _, waits := range []<-chan string{first, second} {
					if ended(waits) == still {
						t.Error("one waits for ever")
					}
				}
				check(t, "waiting", d.Waiting(), 0)
				d.leases(row.other, 1, 2)
			})
		})
	}
}

// late is the context of a request that is delayed before it waits, until it is ready.
type late struct {
	context.Context
	ready <-chan struct{}
}

func (l late) Deadline() (time.Time, bool) {
	<-l.ready
	return l.Context.Deadline()
}

// The limits that Auto has found are kept for a bounded number of unused keys.
func TestAutoIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Max: 100}))
		first := d.lease("a", 1).Limit
		time.Sleep(30 * time.Second) // it runs out, which teaches nothing
		d.work("a", 20, 2*time.Second, func() { time.Sleep(10 * time.Millisecond) })
		synctest.Wait()
		learnt := d.inflight("a", 0).Limit
		if learnt <= first {
			t.Fatalf("limit %d: has not grown from %d", learnt, first)
		}
		for i := range 1023 {
			l := d.lease(fmt.Sprint(i), 1)
			must(t, d.Return(l.Key, l.ID, weir.Success))
		}
		check(t, "of one of the last 1024 keys", d.inflight("a", 0).Limit, learnt)
		check(t, "keys", d.Stats().Rules[0].Leases.Keys, 1024)
		check(t, "limits", d.Stats().Rules[0].Leases.Limit, 1023*first+learnt)
		l := d.lease("one more", 1)
		must(t, d.Return(l.Key, l.ID, weir.Success))
		check(t, "of one that was used before those", d.inflight("a", 0).Limit, first)
		check(t, "limits", d.Stats().Rules[0].Leases.Limit, 1024*first)
	})
}

// work lets clients lease a unit of the key repeatedly for a while.
func (d desk) work(key string, clients int, length time.Duration, work func()) {
	ctx, cancel := context.WithTimeout(d.t.Context(), length)
	defer cancel()
	done := make(chan struct{})
	for range clients {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				l, err := d.Acquire(ctx, decider.LeaseRequest{Key: key, N: 1, Wait: true})
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				work()
				if err := d.Return(key, l.ID, weir.Success); err != nil {
					d.t.Error(err)
				}
			}
		}()
	}
	for range clients {
		<-done
	}
}

// Auto finds about how much a pool can do at once. A drain halves what is in
// flight, and meets a queue if more than 0.7 of that becomes time: if more than
// 2^0.7 times as many are in flight as are at work.
func TestAutoFindsThePool(t *testing.T) {
	for _, places := range []int{4, 16} {
		t.Run(fmt.Sprint(places, " at once"), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{}))
				pool := make(chan struct{}, places)
				go d.work("a", 50, 2*time.Minute, func() {
					pool <- struct{}{}
					time.Sleep(100 * time.Millisecond)
					<-pool
				})
				time.Sleep(time.Minute)
				sum := 0
				for range 59 {
					time.Sleep(time.Second)
					sum += d.inflight("a", 0).Limit
				}
				if mean := float64(sum) / 59; mean < 0.8*float64(places) || mean > 1.5*float64(places) {
					t.Errorf("the limit is %.1f on average", mean)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
