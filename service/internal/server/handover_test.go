package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A fleet has members, and the owner of each slot.
type fleet struct {
	t       *testing.T
	members []desk
	owner   [slot.Count]int
}

// newFleet returns members that start a second after each other. The first owns all slots.
func newFleet(t *testing.T, n int, cfg config.Rules) *fleet {
	f := &fleet{t: t}
	for range n {
		rules := cfg
		f.members = append(f.members, newDesk(t, server.Config{Fleet: "secret", Rules: &rules}))
		time.Sleep(time.Second)
	}
	for _, m := range f.members[1:] {
		m.Depart(slot.All())
	}
	return f
}

// of returns the owner of a key.
func (f *fleet) of(key string) desk { return f.members[f.owner[f.members[0].RouteKey(key)]] }

// one returns the slot of a key.
func (f *fleet) one(key string) *slot.Set {
	s := new(slot.Set)
	s.Add(f.members[0].RouteKey(key))
	return s
}

// move hands slots over.
func (f *fleet) move(slots *slot.Set, to int) {
	f.t.Helper()
	f.members[to].Expect(slots, time.Second)
	for from, m := range f.members {
		some := new(slot.Set)
		for i := range f.owner {
			if f.owner[i] == from && slots.Has(uint16(i)) {
				some.Add(uint16(i))
				f.owner[i] = to
			}
		}
		if from != to && some.Len() > 0 {
			m.Depart(some)
			f.export(from, to, some)
		}
	}
	f.members[to].Received(slots)
}

func (f *fleet) export(from, to int, slots *slot.Set) {
	f.t.Helper()
	must(f.t, f.members[from].Export(f.t.Context(), slots, f.members[to].Import))
}

// Every method answers ErrMoved where the key is not owned any more.
func TestDepart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, config.Rules{Rules: []config.Rule{one("r", quota(5, time.Second, config.GCRA))}})
		a, ctx := f.members[0].Server, t.Context()
		a.Depart(f.one("k"))
		reqs := []decider.Request{{Key: "other", N: 1}, {Key: "k", N: 1}}
		_, batch := a.Batch(ctx, reqs, false, make([]decider.Verdict, 2))
		_, descriptors := a.Descriptors(ctx, reqs, false, make([]decider.Verdict, 2))
		_, settle := a.Settle(ctx, "k", "id", 1)
		_, acquire := a.Acquire(ctx, decider.LeaseRequest{Key: "k", N: 1})
		_, renew := a.Renew(ctx, "k", "id", 0)
		_, explain := a.Explain(ctx, "k")
		for what, err := range map[string]error{
			"Decide": a.Decide(ctx, &reqs[1], new(decider.Verdict)), "Wait": a.Wait(ctx, &reqs[1], new(decider.Verdict)),
			"Batch": batch, "Descriptors": descriptors, "Settle": settle, "Acquire": acquire, "Renew": renew,
			"Return": a.Return(ctx, "k", "id", weir.Success), "Explain": explain,
		} {
			check(t, what, err, decider.ErrMoved)
		}
		f.members[0].allows("other", 5, 6) // the batch has taken nothing
		a.Expect(f.one("k"), 0)
		f.members[0].allows("k", 5, 6)
	})
}

// What was used at the last owner since the first Export counts, too.
func TestStragglersCount(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed, config.Sliding} {
		bubble(t, func(t *testing.T) {
			f := newFleet(t, 2, config.Rules{Rules: []config.Rule{one("r", quota(10, time.Hour, a))}})
			f.members[0].allows("k", 3, 3)
			f.export(0, 1, slot.All())
			f.members[0].allows("k", 2, 2)
			f.members[1].Expect(slot.All(), 0)
			f.members[1].allows("k", 4, 4)
			f.export(0, 1, slot.All())
			f.members[1].allows("k", 1, 2)
			f.export(0, 1, slot.All())
			f.members[1].allows("k", 0, 1)
		})
	}
}

// A bucket refills on its way, also if the new owner begins to use it before it comes.
func TestBucketsRefillOnTheWay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, config.Rules{Rules: []config.Rule{one("r", quota(10, 10*time.Second, config.GCRA))}})
		var chunks [][]byte
		for _, key := range []string{"idle", "busy"} {
			f.members[0].allows(key, 10, 10)
		}
		must(t, f.members[0].Export(t.Context(), slot.All(), func(chunk []byte) error {
			chunks = append(chunks, chunk)
			return nil
		}))
		f.members[1].Expect(slot.All(), 0)
		f.members[1].allows("busy", 2, 2)
		time.Sleep(6 * time.Second)
		for _, chunk := range chunks {
			must(t, f.members[1].Import(chunk))
		}
		f.members[1].allows("idle", 6, 7)
		f.members[1].allows("busy", 4, 5)
	})
}

// A chunk that comes twice counts once, and one that cannot be sent is put back.
func TestChunks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := []config.Rule{one("r", quota(10, time.Hour, config.GCRA)), leased("l", config.Concurrency{Limit: 3, TTL: time.Minute})}
		rules[0].Glob = "k*"
		f := newFleet(t, 2, config.Rules{Rules: rules})
		a, b := f.members[0], f.members[1]
		b.Expect(slot.All(), 0)
		a.allows("k", 3, 3)
		l, err := a.Acquire(t.Context(), decider.LeaseRequest{Key: "l", N: 2})
		must(t, err)
		lost := errors.New("the link is gone")
		for fails := range 2 { // one chunk after another
			n := 0
			err := a.Export(t.Context(), slot.All(), func(chunk []byte) error {
				if n++; n > fails {
					return lost
				}
				must(t, b.Import(chunk))
				return b.Import(chunk)
			})
			if !errors.Is(err, lost) {
				t.Fatalf("%d chunks: %v", fails, err)
			}
			if fails == 0 {
				a.allows("k", 1, 1)
			}
		}
		f.export(0, 1, slot.All())
		b.allows("k", 6, 7)
		a.allows("k", 10, 11)
		if _, err := b.Renew("l", l.ID, 0); err != nil {
			t.Error(err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Export(cancelled, slot.All(), b.Import); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		a.allows("k", 0, 1)
	})
}

// Grants can be settled at the new owner, once.
func TestGrantsMove(t *testing.T) {
	for _, a := range []config.Algorithm{config.GCRA, config.Fixed, config.Sliding} {
		bubble(t, func(t *testing.T) {
			f := newFleet(t, 2, config.Rules{})
			for _, m := range f.members { // at different instants of their clocks
				must(t, m.Reload(&config.Rules{Rules: []config.Rule{one("r", quota(10, time.Hour, a))}}))
				time.Sleep(time.Minute)
			}
			grant := func() string {
				v := f.of("k").ask("k", 3)
				return string(f.of("k").AppendGrantID(nil, v.Grant, "k"))
			}
			settle := func(what, id string, want error) {
				t.Helper()
				if got, err := f.of("k").Settle("k", id, 1); err != want || want == nil && got != (decider.Settlement{Was: 3, Charged: 1}) {
					t.Errorf("%s: %+v, %v: want %v", what, got, err, want)
				}
			}
			first, second := grant(), grant()
			settle("at the owner", first, nil)
			for to := range 3 {
				f.move(slot.All(), 1-to%2)
				settle("again", first, decider.ErrNoGrant)
			}
			settle("at the new owner", second, nil)
			f.move(slot.All(), 0)
			settle("and again", second, decider.ErrNoGrant)
			late := grant()
			if v := f.of("k").ask("k", 5); !v.OK {
				t.Errorf("of 10 tokens, 5 are used: %+v", v)
			}
			time.Sleep(decider.GrantLife + time.Second)
			settle("too late", late, decider.ErrNoGrant)
		})
	}
}

// Requests that wait are told to ask the new owner.
func TestDismissal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens, leases := queued(quota(1, time.Hour, config.GCRA), 10), leased("l", config.Concurrency{Limit: 1, TTL: time.Hour, Queue: ptr(10)})
		tokens.Glob, leases.Glob = "k*", "l*"
		f := newFleet(t, 2, config.Rules{Rules: []config.Rule{tokens, leases}})
		a := f.members[0]
		for _, key := range []string{"k1", "k2"} {
			a.allows(key, 1, 1)
		}
		for _, key := range []string{"l1", "l2"} {
			if _, err := a.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 1}); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan string, 100)
		for i := range 3 {
			for _, key := range []string{"k1", "l1", "k2", "l2"} {
				go func() {
					_, err := a.wait(t.Context(), decider.Request{Key: key, N: 1})
					if key[0] == 'l' {
						_, err = a.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 1, Wait: true})
					}
					ended <- fmt.Sprint(key, i, err)
				}()
				synctest.Wait()
			}
		}
		check(t, "waiting", a.Waiting(), 12)
		slots := f.one("k1")
		slots.Union(f.one("l1"))
		a.Depart(slots)
		synctest.Wait()
		check(t, "waiting", a.Waiting(), 6)
		check(t, "dismissed", len(ended), 6)
		for range 6 {
			if e := <-ended; e[1] != '1' || !strings.HasSuffix(e, decider.ErrMoved.Error()) {
				t.Error(e)
			}
		}
	})
}

// Requests wait for the state of their keys, but not for long.
func TestExpectHoldsRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFleet(t, 2, config.Rules{Rules: []config.Rule{one("r", quota(5, time.Hour, config.GCRA))}})
		f.members[0].allows("k", 3, 3)
		b := f.members[1]
		b.Expect(slot.All(), time.Second)
		var of time.Duration
		ask := func() {
			start := time.Now()
			b.allows("k", 1, 1)
			of = time.Since(start)
		}
		go ask()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		check(t, "a caller that leaves", b.Server.Decide(ctx, &decider.Request{Key: "k", N: 1}, new(decider.Verdict)), context.DeadlineExceeded)
		b.Expect(f.one("other"), time.Minute)
		f.export(0, 1, slot.All())
		b.Received(f.one("k"))
		synctest.Wait()
		check(t, "until Received", of, time.Millisecond)
		b.allows("k", 1, 2)
		b.Expect(f.one("k"), time.Second)
		b.Expect(f.one("k"), 5*time.Second)
		start := time.Now()
		b.allows("k", 0, 1)
		check(t, "at most", time.Since(start), 5*time.Second)
		b.Expect(f.one("k"), time.Hour)
		go func() {
			check(t, "gone again", b.Server.Decide(t.Context(), &decider.Request{Key: "k", N: 1}, new(decider.Verdict)), decider.ErrMoved)
		}()
		synctest.Wait()
		b.Depart(slot.All())
		synctest.Wait()
	})
}
