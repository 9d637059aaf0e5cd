package server_test

import (
	"cmp"
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

// A use is an observation, independent of the Server: a holder had a unit between two
// instants.
type use struct{ from, to time.Duration }

// Three in ten holders die without returning their lease. An observer never sees
// more holders at work than the limit and, because others always wait, never fewer:
// the unit of a dead holder is used again once its TTL is over.
func TestHoldersThatDie(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const limit, clients, ttl, length = 7, 40, 300 * time.Millisecond, time.Minute
		d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: limit, TTL: ttl}))
		start := time.Now()
		var mu sync.Mutex
		var seen []use
		died := 0
		hold := func(random *rand.Rand) bool {
			l, err := d.Acquire(t.Context(), decider.LeaseRequest{Key: "a", N: 1, Wait: true})
			must(t, err)
			u := use{from: time.Since(start)}
			alive := random.IntN(10) >= 3
			if alive {
				time.Sleep(time.Duration(random.Int64N(int64(ttl))))
				if random.IntN(2) == 0 {
					_, err := d.Renew("a", l.ID, 0)
					must(t, err)
					time.Sleep(time.Duration(random.Int64N(int64(ttl))))
				}
				u.to = time.Since(start)
				must(t, d.Return("a", l.ID, weir.Success))
			} else {
				u.to = u.from + ttl
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, u)
			if !alive {
				died++
			}
			return alive
		}
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for time.Since(start) < length {
					hold(random)
				}
			})
		}
		all.Wait()
		time.Sleep(ttl)
		synctest.Wait()
		check(t, "held at the end", d.Stats().Leases, 0)
		check(t, "in flight at the end", d.inflight("a", 0).Inflight, 0)
		if died < 100 {
			t.Errorf("only %d died", died)
		}
		watch(t, seen, limit, length)
	})
}

// watch checks that exactly the limit is at work at any time until the end.
func watch(t *testing.T, seen []use, limit int, end time.Duration) {
	t.Helper()
	type event struct {
		at    time.Duration
		delta int
	}
	var events []event
	for _, u := range seen {
		if u.to > u.from {
			events = append(events, event{u.from, 1}, event{u.to, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) // ends come first: they make room
	})
	n := 0
	for i, e := range events {
		n += e.delta
		if n > limit {
			t.Fatalf("%v: %d at work, of %d", e.at, n, limit)
		}
		if last := i+1 == len(events) || events[i+1].at > e.at; last && e.at < end && n < limit {
			t.Fatalf("%v: %d at work, of %d, although others wait", e.at, n, limit)
		}
	}
}

// A renewal, a return and the end of the TTL race: the units come back once, and each
// call has the right result.
func TestLeaseRaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, leased("jobs", config.Concurrency{Limit: 100, TTL: time.Millisecond}))
		var returned, ranOut int
		var mu sync.Mutex
		for round := range 50 {
			ids := d.leases("a", 100, 100)
			check(t, "in flight", d.inflight("a", 0).Inflight, 100)
			var all sync.WaitGroup
			for i, id := range ids {
				for range 2 {
					all.Go(func() {
						time.Sleep(time.Millisecond) // as it runs out
						if err := d.Return("a", id, weir.Success); err == nil {
							mu.Lock()
							returned++
							mu.Unlock()
						}
					})
				}
				all.Go(func() {
					if i%2 == round%2 {
						d.Renew("a", id, time.Duration(i))
					}
				})
			}
			all.Wait()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			check(t, "in flight", d.inflight("a", 0).Inflight, 0)
			check(t, "held", d.Stats().Leases, 0)
		}
		st := d.Stats().Rules[0].Leases
		ranOut = int(st.Expired)
		check(t, "returned", st.Returned, uint64(returned))
		check(t, "all", returned+ranOut, 50*100)
		check(t, "held", st.Held, 0)
	})
}

// On several processors: nothing is lost, and no more than the limit is held.
func TestLeasesAtOnce(t *testing.T) {
	d := newDesk(t, server.Config{}, leased("each", config.Concurrency{Limit: 3, TTL: time.Hour}))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 300 {
				key := fmt.Sprint((i + n) % 3)
				l, err := d.Acquire(t.Context(), decider.LeaseRequest{Key: key, N: 1 + n%2, Wait: n%3 > 0})
				if err != nil {
					continue
				}
				if st := d.Explain(key).Rules[0].Lease; st == nil || st.Inflight > 3 {
					t.Errorf("%q: %+v", key, st)
				}
				if n%5 == 0 {
					d.Renew(key, l.ID, time.Hour)
				}
				if err := d.Return(key, l.ID, weir.Success); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			must(t, d.Reload(d.Rules()))
			d.Stats()
			d.snapshot()
		}
	})
	all.Wait()
	check(t, "held", d.Stats().Leases, 0)
	check(t, "units", d.Stats().Rules[0].Leases.Held, 0)
	check(t, "waiting", d.Waiting(), 0)
}
