package ring

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/ring/census"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A member that leaves hands its counts, its leases and the requests that wait there over.
func TestLeave(t *testing.T) {
	rules := jobs(6)
	rules.Rules[0].Quota = config.Quota{Rate: config.Rate{Count: limit, Period: 30 * time.Second}}
	inFleet(t, 3, rules, func(t *testing.T, f *fleet) {
		key := f.ownedBy("c")
		f.take("a", key, limit)
		ids, _ := f.acquire("b", key)
		var all sync.WaitGroup
		for i := range 9 {
			all.Go(func() {
				if waited, v := f.wait(f.names[i%3], key); !v.OK || v.Step != decider.Exact || v.Waited < waited-100*time.Millisecond {
					t.Errorf("%+v after %v", v, waited)
				}
			})
			time.Sleep(time.Millisecond)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if moved, err := f.nodes["c"].Leave(ctx); err != nil || !moved || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		f.want(map[string]string{"a": "live live left", "b": "live live left", "c": "live live left"})
		for _, at := range f.names { // the one that leaves forwards
			if n, step := f.take(at, key, 5); n > 1 || step != decider.Exact {
				t.Errorf("%s gives %d tokens, %v", at, n, step)
			}
			if more, step := f.acquire(at, key); len(more) > 0 || step != decider.Exact {
				t.Errorf("%s leases %d units, %v", at, len(more), step)
			}
			if _, err := f.nodes[at].Renew(context.Background(), key, ids[0], 0); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
		all.Wait()
		if took := time.Since(start); took < 8900*time.Millisecond {
			t.Errorf("9 tokens in %v, want one a second", took)
		}
		f.kill("c")
		f.start("c")
		time.Sleep(3 * time.Second)
		f.want(map[string]string{"a": "live live live", "b": "live live live", "c": "live live live"})
		if n, step := f.take("a", key, limit); n > 6 || step != decider.Exact {
			t.Errorf("%d tokens after the restart, %v", n, step)
		}
	})
}

// Members that all leave at once do not wait for each other.
func TestAllLeave(t *testing.T) {
	inFleet(t, 3, jobs(6), func(t *testing.T, f *fleet) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for _, name := range f.names {
			all.Go(func() {
				if _, err := f.nodes[name].Leave(ctx); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("they have left after %v", took)
		}
	})
}

// The last member waits for none.
func TestTheLastLeaves(t *testing.T) {
	inFleet(t, 3, jobs(6), func(t *testing.T, f *fleet) {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		for i, name := range f.names {
			last := i == len(f.names)-1
			if moved, err := f.nodes[name].Leave(ctx); err != nil || moved == last {
				t.Errorf("%s: moved: %t, %v", name, moved, err)
			}
			if !last {
				f.kill(name)
				time.Sleep(3 * time.Second)
			}
		}
	})
}

// A member that is back finds the others one after the other, and has its state from all of them.
func TestPeersAreFoundLate(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		var keys []string // of c, and of both other members without it
		for i := 0; len(keys) < 8; i++ {
			if key := fmt.Sprintf("key:%d", i); f.nodes["a"].view.Load().owner(f.nodes["a"].server.RouteKey(key)) == "c" {
				keys = append(keys, key)
			}
		}
		if _, err := f.nodes["c"].Leave(context.Background()); err != nil {
			t.Fatal(err)
		}
		f.kill("c")
		time.Sleep(time.Second)
		for _, key := range keys {
			f.take("a", key, limit)
		}
		f.cut("b", "c", true)
		f.start("c")
		time.Sleep(300 * time.Millisecond)
		f.cut("b", "c", false)
		time.Sleep(3 * time.Second)
		for _, key := range keys {
			if n, step := f.take("c", key, limit); n > 0 || step != decider.Exact {
				t.Errorf("%s: %d tokens, %v", key, n, step)
			}
		}
	})
}

// A member that comes with the state of keys that others own hands it over, also if it was thought to
// be dead.
func TestStateComesLate(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		for _, crashed := range []bool{true, false} {
			f.kill("c")
			time.Sleep(time.Second)
			if !crashed { // both others are new, and have never seen it
				f.kill("a")
				f.kill("b")
				f.start("a")
				f.start("b")
				time.Sleep(5 * time.Second)
			}
			f.want(map[string]string{"a": "live live dead", "b": "live live dead"})
			keys := []string{f.ownedBy("a"), f.ownedBy("b")}
			f.cut("a", "c", true)
			f.cut("b", "c", true)
			f.start("c")
			for _, key := range keys { // as from a state file
				var v decider.Verdict
				if err := f.nodes["c"].server.Decide(context.Background(), &decider.Request{Key: key, N: limit}, &v); err != nil || !v.OK {
					t.Fatalf("%v, %v", v, err)
				}
			}
			f.cut("a", "c", false)
			f.cut("b", "c", false)
			time.Sleep(3 * time.Second)
			f.want(map[string]string{"a": "live live live", "b": "live live live", "c": "live live live"})
			for _, key := range keys {
				if n, step := f.take("c", key, limit); n > 0 || step != decider.Exact {
					t.Errorf("crashed: %v: %s: %d tokens, %v", crashed, key, n, step)
				}
			}
		}
	})
}

// While the counts of a key move, requests for it are held: none is decided by a full bucket.
func TestRequestsAreHeldWhileCountsMove(t *testing.T) {
	inFleet(t, 3, bucket(limit, time.Hour), func(t *testing.T, f *fleet) {
		key := f.ownedBy("c")
		if n, _ := f.take("c", key, limit); n != limit {
			t.Fatalf("%d tokens", n)
		}
		var asking sync.WaitGroup
		for range 200 { // one request each 100 µs, at both others
			for _, at := range []string{"a", "b"} {
				asking.Go(func() {
					if n, step := f.take(at, key, 1); n > 0 || step != decider.Exact {
						t.Errorf("%s gives %d tokens, %v", at, n, step)
					}
				})
			}
			if time.Sleep(100 * time.Microsecond); f.nodes["c"].view.Load().Status["c"] != census.Left {
				asking.Go(func() { _, _ = f.nodes["c"].Leave(context.Background()) })
			}
		}
		asking.Wait()
	})
}
