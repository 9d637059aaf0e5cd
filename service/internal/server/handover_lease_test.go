package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

func (d desk) acquire(key string, n int) (decider.Lease, error) {
	return d.Acquire(context.Background(), decider.LeaseRequest{Key: key, N: n})
}

func (d desk) mustAcquire(key string, n int) decider.Lease {
	d.t.Helper()
	l, err := d.acquire(key, n)
	must(d.t, err)
	return l
}

// refuses checks that a lease of one unit is refused: while the server waits for the leases of an owner that is gone, until
// about a time from now; or, with 0, because the limit is reached.
func (d desk) refuses(key string, until time.Duration) {
	d.t.Helper()
	_, err := d.acquire(key, 1)
	why := weir.OverLimit
	if until > 0 {
		why = weir.Recovering
	}
	if r := (*weir.Rejection)(nil); !errors.As(err, &r) || r.Reason != why || r.RetryAfter < until || until > 0 && r.RetryAfter > until*3/2 {
		d.t.Errorf("%q: %v, %v: want it to be refused until %v", key, err, r, until)
	}
}

func newLeasingFleet(t *testing.T, n int) *fleet {
	all := leased("all", config.Concurrency{Limit: 3, TTL: time.Minute, MaxTTL: time.Hour, Queue: ptr(10)})
	return newFleet(t, n, config.Rules{Rules: []config.Rule{all}})
}

// A lease moves with its limit, its id, its fencing token and the time that it has left.
func TestLeasesMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newLeasingFleet(t, 3)
		var last uint64
		held := map[string]decider.Lease{}
		for i := range 30 {
			f.move(slot.All(), (i+1)%3)
			for key := range 5 {
				key := fmt.Sprint("k", key)
				d, first := f.of(key), fmt.Sprint(key, " ", i-3)
				if l, ok := held[first]; ok {
					if i%2 == 0 {
						_, err := d.Renew(key, l.ID, 0)
						must(t, err)
					}
					must(t, d.Return(key, l.ID, weir.Success))
					check(t, "returned twice", d.Return(key, l.ID, weir.Success), decider.ErrNoLease)
				}
				l := d.mustAcquire(key, 1)
				if i >= 2 {
					check(t, "units in flight", l.Inflight, 3)
					d.refuses(key, 0)
				}
				if l.Token <= last {
					t.Fatalf("the token %d comes after %d", l.Token, last)
				}
				held[fmt.Sprint(key, " ", i)], last = l, l.Token
			}
			time.Sleep(time.Second)
		}
		time.Sleep(57*time.Second - time.Millisecond)
		f.move(slot.All(), 2)
		f.of("k0").refuses("k0", 0)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		check(t, "after the first has expired", f.of("k0").mustAcquire("k0", 1).Inflight, 3)
		stats := f.members[0].Stats()
		check(t, "leases at an earlier owner", stats.Leases+stats.Rules[0].Leases.Held, 0)
	})
}

// A new owner without the state grants no leases, and adopts the leases that are renewed.
func TestLeasesOfADeadOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newLeasingFleet(t, 2)
		f.move(slot.All(), 1)
		a, b := f.members[1], f.members[0] // a has started later
		renewed, returned := a.mustAcquire("k", 2), a.mustAcquire("k", 1)
		foreign := newLeasingFleet(t, 1).members[0].mustAcquire("other", 1)
		b.Expect(slot.All(), 0)
		b.refuses("k", time.Hour)
		check(t, "recovers in", b.Explain("k").Rules[0].Lease.Recovers, time.Hour)
		must(t, b.Return("k", returned.ID, weir.Success))
		time.Sleep(30 * time.Second)
		l, err := b.Renew("k", renewed.ID, 0)
		must(t, err)
		check(t, "token", l.Token, renewed.Token)
		for what, id := range map[string]string{"of another key": foreign.ID, "with another seal": returned.ID[:31] + string('a'+'f'-max(returned.ID[31], 'a')) + "-2"} {
			_, err := b.Renew("k", id, 0)
			check(t, what, err, decider.ErrNoLease)
		}
		for range 3000 {
			_, err := b.Renew("k", renewed.ID, time.Second)
			must(t, err)
			time.Sleep(time.Second - 1)
		}
		b.refuses("k", 570*time.Second+3000)
		time.Sleep(570*time.Second + 3000)
		next := b.mustAcquire("k", 3)
		if next.Token <= renewed.Token {
			t.Errorf("the token %d comes after %d", next.Token, renewed.Token)
		}
		_, err = b.Renew("k", renewed.ID, 0)
		check(t, "it has expired", err, decider.ErrNoLease)
	})
}

// A lease that comes from two earlier owners lasts until the later end: one of them has extended it.
func TestLeaseFromTwoOwners(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newLeasingFleet(t, 3)
		a, b, c := f.members[0], f.members[1], f.members[2]
		held := a.mustAcquire("k", 1)
		b.Expect(slot.All(), 0)
		_, err := b.Renew("k", held.ID, 30*time.Minute)
		must(t, err)
		c.Expect(slot.All(), 0)
		f.export(0, 2, slot.All())
		f.export(1, 2, slot.All())
		c.Received(slot.All())
		time.Sleep(30*time.Minute - 1)
		_, err = c.Renew("k", held.ID, 0)
		must(t, err)
		check(t, "units in flight", c.mustAcquire("k", 2).Inflight, 3)
	})
}

// A lease is held once if it is adopted before it comes, and no more than the limit is adopted.
func TestAdoptionBeforeTheState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newLeasingFleet(t, 2)
		a, b := f.members[0], f.members[1]
		var all []decider.Lease
		for range 3 {
			all = append(all, a.mustAcquire("k", 1))
		}
		b.Expect(slot.All(), 0)
		for i := range 2 {
			_, err := b.Renew("k", all[i].ID, 0)
			must(t, err)
		}
		a.Depart(slot.All())
		f.export(0, 1, slot.All())
		b.Received(slot.All())
		b.refuses("k", 0)
		for i := range all {
			must(t, b.Return("k", all[i].ID, weir.Success))
		}
		check(t, "units in flight", b.mustAcquire("k", 3).Inflight, 3)
		_, err := b.Renew("k", all[0].ID, 0)
		check(t, "nothing is adopted any more", err, decider.ErrNoLease)

		f = newLeasingFleet(t, 3)
		a, b, c := f.members[0], f.members[1], f.members[2]
		b.Expect(slot.All(), 0)
		b.Received(slot.All()) // as if a and b both owned the key
		all = []decider.Lease{a.mustAcquire("k", 2), b.mustAcquire("k", 2)}
		c.Expect(slot.All(), 0)
		f.export(0, 2, slot.All())
		_, err = c.Renew("k", all[1].ID, 0)
		check(t, "more than the limit", err, decider.ErrNoLease)
	})
}

// Requests in the queue of the last owner get their leases at the new one.
func TestWaitersForLeasesMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newLeasingFleet(t, 2)
		l := f.of("k").mustAcquire("k", 3)
		got := make(chan error, 3)
		for range 3 {
			go func() {
				req := decider.LeaseRequest{Key: "k", N: 1, Wait: true}
				_, err := f.members[0].Acquire(t.Context(), req)
				if err == decider.ErrMoved {
					_, err = f.members[1].Acquire(t.Context(), req)
				}
				got <- err
			}()
			synctest.Wait()
		}
		f.move(slot.All(), 1)
		synctest.Wait()
		check(t, "requests that wait", f.members[1].Waiting(), 3)
		check(t, "and at the last owner", f.members[0].Waiting(), 0)
		must(t, f.members[1].Return("k", l.ID, weir.Success))
		for range 3 {
			must(t, <-got)
		}
	})
}

// A limit that is auto keeps what it has found.
func TestFoundLimitsMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rule := leased("r", config.Concurrency{Limit: config.Auto, Min: 1, Max: 50, TTL: time.Minute})
		f := newFleet(t, 2, config.Rules{Rules: []config.Rule{rule}})
		a := f.members[0]
		first := a.mustAcquire("k", 1).Limit
		for range 2000 {
			var all []decider.Lease
			for l, err := a.acquire("k", 1); err == nil; l, err = a.acquire("k", 1) {
				all = append(all, l)
			}
			time.Sleep(10 * time.Millisecond)
			for _, l := range all {
				must(t, a.Return("k", l.ID, weir.Success))
			}
		}
		found := a.mustAcquire("k", 1).Limit
		if found == first {
			t.Fatalf("the limit is still %d", found)
		}
		f.move(slot.All(), 1)
		check(t, "the limit", f.of("k").mustAcquire("k", 1).Limit, found)
	})
}
